import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Logger } from 'pino'
import Type, { type Static } from 'typebox'
import { type Actor, type AuditAction, recordAudit } from '../access/audit.ts'
import { type Database, isUniqueViolation, type Transaction } from '../db/database.ts'
import { clientAddress } from '../http/app.ts'
import { closed } from '../http/schemas.ts'
import { Fault } from '../lib/faults.ts'
import { isId, newId, type PasskeyId, type UserId } from '../lib/ids.ts'
import type { MasterKeys } from '../lib/master-keys.ts'
import { isoTime } from '../lib/time.ts'
import { organizationsOfUser } from '../organizations/sql.ts'
import { lockUser } from '../organizations/users.ts'
import {
  checkOrigin,
  currentSession,
  holdSession,
  openSession,
  personSession,
  recentMinutes,
} from './console-sessions.ts'
import { createChallenges } from './passkey-challenges.ts'
import {
  countPasskeys,
  deletePasskey,
  findCredential,
  insertPasskey,
  listCredentials,
  listPasskeys,
  type PasskeyRow,
  recordUse,
  renamePasskey,
  stopOffering,
} from './passkey-sql.ts'
import {
  type Assertion,
  checkAssertion,
  checkAttestation,
  newPasskeyOptions,
  signInOptions,
} from './passkey-webauthn.ts'
import { addressWithPasskeys, passkeysMissing, type RelyingParty, relyingPartyOf } from './relying-party.ts'
import { deviceName } from './user-agent.ts'

/** Our own limit: nobody has more authenticators, and a browser is told about all of them. */
const passkeysMax = 20

/** What browsers answer, as W3C Web Authentication, 5.1.8 and 5.1.9 write it in JSON. The library checks the content. */
const base64url = (maxLength: number) => Type.String({ pattern: '^[\\w-]+$', maxLength })
const credential = { id: base64url(1_400), rawId: base64url(1_400), type: Type.Literal('public-key') }
const answerBody = closed({
  answer: Type.Object({
    ...credential,
    response: Type.Object({
      clientDataJSON: base64url(8_000),
      authenticatorData: base64url(8_000),
      signature: base64url(8_000),
      userHandle: base64url(100),
    }),
  }),
})
const label = Type.String({ minLength: 1, maxLength: 100, format: 'label' })
const newBody = closed({
  name: label,
  answer: Type.Object({
    ...credential,
    response: Type.Object({
      clientDataJSON: base64url(8_000),
      attestationObject: base64url(32_000),
      transports: Type.Optional(Type.Array(Type.String({ pattern: '^[a-z-]{1,20}$' }), { maxItems: 10 })),
    }),
  }),
})
const nameBody = closed({ name: label })

type OnePasskey = { Params: { passkeyId: string } }

export type PasskeyDeps = {
  db: Database
  masterKeys: MasterKeys
  publicUrl: string | null
  log: Logger
  /** Gives the browser the cookie of a session that was opened. */
  signedIn(request: FastifyRequest, reply: FastifyReply, userId: UserId, secret: string): void
}

/**
 * Passkeys of people: the only thing that signs in without somebody else. They are added and removed within a session, and no API key
 * or login token can do it.
 */
export function addPasskeys(app: FastifyInstance, deps: PasskeyDeps): void {
  const { db, publicUrl, log } = deps
  const challenges = createChallenges(deps.masterKeys)

  app.post('/console/passkey-challenge', async (request, reply) => {
    const party = checkParty(request, publicUrl)
    const options = await signInOptions(party)
    challenges.keep(reply, { challenge: options.challenge, sessionId: null, secure: isHttps(party) })
    return reply.send(options)
  })

  app.post<{ Body: Static<typeof answerBody> }>(
    '/console/passkey-session',
    { schema: { body: answerBody } },
    async (request, reply) => {
      const party = checkParty(request, publicUrl)
      const challenge = challenges.of(request, null)
      if (challenge === null) throw refused('there is no challenge that this browser asked for')
      const answer = request.body.answer as Assertion
      const found = await findCredential(db, party.id, answer.id)
      if (found === null) throw refused('nobody has this passkey here')
      const signCount = await checkAssertion(answer, { party, challenge: challenge.challenge, found }).catch(refuse)
      const secret = await db.begin(async (tx) => {
        if (!(await challenges.spend(tx, challenge))) throw refused('the challenge was answered before')
        if (!(await recordUse(tx, found.id, signCount))) throw refused('the passkey was removed or its count went back')
        return openSession(tx, request, found.user_id, 'passkey')
      })
      deps.signedIn(request, reply, found.user_id, secret)
      return reply.code(204).send()
    },
  )

  app.get('/console/passkeys', async (request, reply) => {
    const session = await personSession(db, request)
    const rows = await listPasskeys(db, session.user_id)
    const suggested_name = deviceName(request.headers['user-agent'] ?? null)
    return reply.send({ passkeys: rows.map(passkeyOf), suggested_name })
  })

  app.post('/console/passkey-options', async (request, reply) => {
    const party = checkParty(request, publicUrl)
    const session = await personSession(db, request)
    // A session that was stolen for minutes must not become a way in for good. The answer has five minutes, in this session.
    if (!session.is_recent) throw signInAgain()
    const known = await listCredentials(db, session.user_id, party.id)
    const options = await newPasskeyOptions(party, session, known)
    challenges.keep(reply, { challenge: options.challenge, sessionId: session.id, secure: isHttps(party) })
    return reply.send(options)
  })

  app.post<{ Body: Static<typeof newBody> }>(
    '/console/passkeys',
    { schema: { body: newBody } },
    async (request, reply) => {
      const party = checkParty(request, publicUrl)
      const session = await personSession(db, request)
      const challenge = challenges.of(request, session.id)
      if (challenge === null) throw refused('there is no challenge that this session asked for')
      const { name, answer } = request.body
      const checked = await checkAttestation(answer, { party, challenge: challenge.challenge }).catch(refuse)
      const userId = session.user_id
      const passkey = { id: newId('pas'), userId, rpId: party.id, name, ...checked }
      const row = await db
        .begin(async (tx) => {
          if (!(await challenges.spend(tx, challenge))) throw refused('the challenge was answered before')
          if ((await lockUser(tx, userId)) === null) throw refused('the user was removed')
          if (!(await holdSession(tx, session.id))) throw refused('the session has ended')
          if ((await countPasskeys(tx, userId)) >= passkeysMax) throw tooMany()
          const inserted = await insertPasskey(tx, passkey)
          await stopOffering(tx, userId)
          await audit(tx, 'user.passkey_added', { request, userId, passkey: passkey.id, name })
          return inserted
        })
        .catch((error) => {
          throw isUniqueViolation(error, 'passkeys_rp_id_credential_id_key') ? refused('it is known already') : error
        })
      log.info({ userId, passkey: row.id, address: clientAddress(request) }, 'console.passkey_added')
      return reply.code(201).send(passkeyOf(row))
    },
  )

  app.patch<OnePasskey & { Body: Static<typeof nameBody> }>(
    '/console/passkeys/:passkeyId',
    { schema: { body: nameBody } },
    async (request, reply) => {
      checkOrigin(request, publicUrl)
      const { user_id: userId } = await personSession(db, request)
      const row = await renamePasskey(db, userId, passkeyIdOf(request.params), request.body.name)
      if (row === null) throw noPasskey()
      return reply.send(passkeyOf(row))
    },
  )

  app.delete<OnePasskey>('/console/passkeys/:passkeyId', async (request, reply) => {
    checkOrigin(request, publicUrl)
    const { user_id: userId } = await personSession(db, request)
    const id = passkeyIdOf(request.params)
    await db.begin(async (tx) => {
      const gone = await deletePasskey(tx, userId, id)
      if (gone === null) throw noPasskey()
      await audit(tx, 'user.passkey_removed', { request, userId, passkey: id, name: gone.name })
    })
    log.info({ userId, passkey: id, address: clientAddress(request) }, 'console.passkey_removed')
    return reply.code(204).send()
  })

  app.delete('/console/passkey-offer', async (request, reply) => {
    checkOrigin(request, publicUrl)
    const session = await currentSession(db, request)
    if (session?.user_id) await stopOffering(db, session.user_id)
    return reply.code(204).send()
  })
}

/** For the sign-in page: what is missing for passkeys on a page at this origin, and where to go instead. */
export function passkeySupport(request: FastifyRequest, publicUrl: string | null, origin: string) {
  const party = partyOf(request, publicUrl)
  const missing = passkeysMissing(party, origin)
  return { missing, elsewhere: missing === null ? null : addressWithPasskeys(party, origin) }
}

/** Whether this page can have passkeys. */
export const hasPasskeys = (request: FastifyRequest, publicUrl: string | null): boolean =>
  passkeysMissing(partyOf(request, publicUrl), request.headers.origin ?? '') === null

const partyOf = ({ socket }: FastifyRequest, publicUrl: string | null): RelyingParty =>
  relyingPartyOf(publicUrl, socket.localPort ?? 0)

function checkParty(request: FastifyRequest, publicUrl: string | null): RelyingParty {
  const origin = checkOrigin(request, publicUrl)
  const party = partyOf(request, publicUrl)
  const missing = passkeysMissing(party, origin)
  if (missing !== null) throw new Fault('console.passkey_refused', { public: missing })
  return party
}

const isHttps = ({ origin }: RelyingParty): boolean => origin.startsWith('https:')

const passkeyOf = ({ id, rp_id, name, created_at, last_used_at }: PasskeyRow) => ({
  id,
  name,
  host: rp_id,
  created_at: isoTime(created_at),
  last_used_at: last_used_at && isoTime(last_used_at),
})

function passkeyIdOf({ passkeyId }: { passkeyId: string }): PasskeyId {
  if (!isId('pas', passkeyId)) throw noPasskey()
  return passkeyId
}

const noPasskey = (): Fault => new Fault('not_found', { public: 'You have no passkey with this id.' })

const tooMany = (): Fault =>
  new Fault('console.passkey_refused', { public: `A person has at most ${passkeysMax} passkeys. Remove one first.` })

const signInAgain = (): Fault =>
  new Fault('console.passkey_refused', {
    public: `Sign in again to add a passkey: that is possible for ${recentMinutes} minutes after signing in.`,
  })

/** One text for all reasons: why an answer does not fit helps nobody but an attacker. */
const refused = (internal: string): Fault =>
  new Fault('console.passkey_refused', {
    public: 'This passkey was not accepted: it was removed, or the request is older than five minutes. Try again.',
    internal,
  })

const refuse = (error: unknown): never => {
  throw refused(String(error))
}

type Change = { request: FastifyRequest; userId: UserId; passkey: PasskeyId; name: string }

/** In the audit log of each organization of the user: a passkey is a way into all of them. */
async function audit(tx: Transaction, action: AuditAction, { request, userId, passkey, name }: Change): Promise<void> {
  const actor: Actor = { kind: 'login', userId, tokenId: null, address: clientAddress(request) }
  for (const orgId of await organizationsOfUser(tx, userId)) {
    await recordAudit(tx, { orgId, action, actor, targetId: userId, details: { passkey, name } })
  }
}
