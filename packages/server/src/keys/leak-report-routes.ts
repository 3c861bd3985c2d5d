import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Logger } from 'pino'
import Type, { type Static } from 'typebox'
import type { Database, HoldOrganization } from '../db/database.ts'
import { clientAddress } from '../http/app.ts'
import { createBodyRoom } from '../http/body-room.ts'
import { readJson } from '../http/decode.ts'
import { prepareBodyInRoom } from '../http/server.ts'
import { Fault } from '../lib/faults.ts'
import { isSignedReport, type LeakReportKeys } from '../lib/leak-signatures.ts'
import { hashApiKey } from '../lib/secrets.ts'
import { reportLeaks } from './leaks.ts'

const path = '/operator/v1/leak-reports/github'
const reportsMax = 4_000
const bodyBytesMax = 1_024 * 1_024
/** Of its own: whether a report is signed is known when all of it is read, and publishers must not wait for a stranger's bodies. */
const roomLimits = { bytesMax: 8 * bodyBytesMax, waitMsMax: 10_000 }

const text = () => Type.Optional(Type.Union([Type.String(), Type.Null()]))

/** Fields that we do not know are passed over: GitHub defines this body. */
const body = Type.Array(Type.Object({ token: Type.String(), type: text(), url: text(), source: text() }), {
  maxItems: reportsMax,
})

/**
 * Leak reports of GitHub's secret scanning. No token is asked for: the signature over the exact bytes of the body is what
 * authenticates, so the route parses its body itself, and is not in the route table.
 */
export function addLeakReports(
  app: FastifyInstance,
  deps: { db: Database; holdOrganization: HoldOrganization; keys: LeakReportKeys; log: Logger },
): void {
  const signed = createSignatureCheck(deps.keys)
  const room = createBodyRoom(roomLimits)
  app.register(async (scope) => {
    scope.removeContentTypeParser('application/json')
    scope.addContentTypeParser('application/json', { parseAs: 'buffer' }, (request, bytes: Buffer, done) => {
      if (!signed.by(request, bytes)) done(signatureInvalid())
      else readJson(request, bytes, done)
    })
    const options = { bodyLimit: bodyBytesMax, schema: { body }, config: { needsBody: true } }
    scope.post(path, options, async (request, reply) => {
      const reports = request.body as Static<typeof body>
      const address = clientAddress(request)
      const actor = { kind: 'operator', tokenId: null, address } as const
      const work = reportLeaks(
        deps,
        { reportedBy: 'github', actor },
        reports.map(({ token, url = null, source = null }) => ({ token, url, source })),
      )
      request.work = work
      const found = await work
      const keys = found.filter(Boolean).length
      deps.log.info({ address, tokens: reports.length, keys }, 'leak_report.received')
      return reply.send(reports.map((report, i) => feedback(report, found[i]!)))
    })
    // Before the body is read: nothing is kept in memory for somebody who names no key.
    scope.addHook('onRequest', (request, _reply, done) =>
      done(signed.isPossible(request) ? undefined : signatureInvalid()),
    )
    scope.addHook('preParsing', (...given) => prepareBodyInRoom(room, ...given))
  })
}

/** By this GitHub learns how good its pattern is. */
const feedback = ({ token, type = null }: Static<typeof body>[number], isKey: boolean) => ({
  token_hash: hashApiKey(token),
  token_type: type,
  label: isKey ? 'true_positive' : 'false_positive',
})

function createSignatureCheck(keys: LeakReportKeys) {
  const given = ({ headers }: FastifyRequest) => ({
    key: keys.get(String(headers['github-public-key-identifier'])),
    signature: headers['github-public-key-signature'],
  })
  return {
    isPossible(request: FastifyRequest): boolean {
      const { key, signature } = given(request)
      return key !== undefined && typeof signature === 'string'
    },
    by(request: FastifyRequest, bytes: Buffer): boolean {
      const { key, signature } = given(request)
      return isSignedReport(key!, bytes, signature as string)
    },
  }
}

/** One answer for every reason. */
const signatureInvalid = (): Fault =>
  new Fault('auth.signature_invalid', { public: 'The report is not signed by a key that is configured here.' })
