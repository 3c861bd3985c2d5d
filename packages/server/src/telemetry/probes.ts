import { timingSafeEqual } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { bearerToken, invalidToken } from '../access/authenticate.ts'
import type { StorageReport } from '../databases/storage-rules.ts'
import type { Database } from '../db/database.ts'
import { sendProblem, unavailable } from '../http/problems.ts'
import { Fault, notFound } from '../lib/faults.ts'

/** How long the database may take to answer; with a slower one the process is not ready. */
const answerMsMax = 3_000

/**
 * Alive: the process answers. Ready: it is not about to stop, and the database accepts writes, on every pool that requests use. A disk that is nearly full is reported and
 * still ready: without this process, keys could not be revoked either.
 */
export function addHealthRoutes(
  app: FastifyInstance,
  deps: {
    pools: readonly Database[]
    storage?: (() => StorageReport) | undefined
    draining?: AbortSignal | undefined
  },
): void {
  app.get('/healthz', async () => ({ status: 'ok' }))
  app.get('/readyz', async (_request, reply) => {
    if (deps.draining?.aborted) {
      // Sent and not thrown: it is no failure, and the log has none.
      sendProblem(reply, stopping())
      return reply
    }
    try {
      const answers = Promise.all(deps.pools.map(checkWritable))
      answers.catch(() => {})
      await Promise.race([answers, late()])
    } catch (error) {
      throw unavailable(`not ready: ${error}`, error)
    }
    const disk = deps.storage?.().disk
    if (!disk) return { status: 'ok' }
    return { status: 'ok', disk: { state: disk.level, free_bytes: disk.freeBytes, floor_bytes: disk.floorBytes } }
  })
}

const stopping = (): Fault =>
  new Fault('service.unavailable', {
    public: 'This process is about to stop. It still answers, and takes new connections for a few seconds.',
    headers: { 'retry-after': '5' },
  })

/** A read-only database is a standby: nothing can be created or delivered there. */
async function checkWritable(db: Database): Promise<void> {
  const [row] = await db<{ only: string }[]>`select current_setting('transaction_read_only') as only`
  if (row!.only === 'on') throw new Error('the database is read-only')
}

async function late(): Promise<never> {
  await sleep(answerMsMax, undefined, { ref: false })
  throw new Error(`the database has not answered for ${answerMsMax / 1_000} seconds`)
}

/**
 * `/metrics`, for callers with the token. Without a token only callers on this machine are answered, and not through a proxy,
 * behind which every caller looks local: how busy an installation is, is not public.
 */
export function addMetricsRoute(
  app: FastifyInstance,
  deps: { metrics: () => Promise<string>; contentType: string; token: string | null },
): void {
  app.get('/metrics', async (request, reply) => {
    if (deps.token !== null) checkToken(deps.token, request)
    else if (!isLocal(request))
      throw notFound('metrics are for callers on this machine unless KEYHOOK_METRICS_TOKEN is set')
    return reply.type(deps.contentType).send(await deps.metrics())
  })
}

function checkToken(token: string, request: FastifyRequest): void {
  const given = Buffer.from(bearerToken(request.headers.authorization))
  const wanted = Buffer.from(token)
  if (given.length !== wanted.length || !timingSafeEqual(given, wanted)) throw invalidToken('not the metrics token')
}

const isLocal = (request: FastifyRequest): boolean =>
  ['x-forwarded-for', 'forwarded', 'via'].every((name) => request.headers[name] === undefined) &&
  /^(127\.|::1$|::ffff:127\.)/.test(request.socket.remoteAddress ?? '')
