import { timingSafeEqual } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import type { Logger } from 'pino'
import Type, { type Static } from 'typebox'
import type { Database } from '../db/database.ts'
import { clientAddress } from '../http/request-log.ts'
import { closed } from '../http/schemas.ts'
import { newSecret, secretHash } from '../lib/base62.ts'
import type { SessionId, UserId } from '../lib/ids.ts'
import { isoTime } from '../lib/time.ts'
import {
  checkOrigin,
  insertCode,
  linkInvalid,
  sessionRequired,
  sessionSecret,
  takeCode,
  useSession,
} from './console-sessions.ts'

/** The browser passes the code on at once. */
const codeSeconds = 60

/** A working day. Signing out of the console ends the token earlier. */
const terminalTokenSeconds = 12 * 3_600

const base64url = (minLength: number, maxLength = minLength) =>
  Type.String({ pattern: '^[\\w-]+$', minLength, maxLength })

const authorizationBody = closed({
  /** SHA-256 of the verifier, which only the terminal has. */
  challenge: base64url(43),
  state: base64url(22, 100),
  port: Type.Integer({ minimum: 1_024, maximum: 65_535 }),
})

const exchangeBody = closed({ code: base64url(43), verifier: base64url(43, 128) })

/**
 * `keyhook login` through the browser, as RFC 8252 and RFC 7636 describe it: a person confirms in the console, the browser passes a
 * code to the terminal on the same machine, and the terminal exchanges it with its verifier. A stolen code is worth nothing.
 */
export function addAuthorization(
  app: FastifyInstance,
  deps: {
    db: Database
    publicUrl: string | null
    issueToken(request: { userId: UserId; sessionId: SessionId; ttlSeconds: number }): Promise<string>
    log: Logger
  },
): void {
  const { db, log } = deps

  app.post<{ Body: Static<typeof authorizationBody> }>(
    '/console/authorizations',
    { schema: { body: authorizationBody } },
    async (request, reply) => {
      checkOrigin(request, deps.publicUrl)
      const cookie = sessionSecret(request)
      const session = cookie === null ? null : await useSession(db, secretHash(cookie))
      if (session === null) throw sessionRequired()
      if (session.user_id === null) throw sessionRequired('This is a session of the operator. Sign in as a user.')
      const { challenge, state, port } = request.body
      const code = newSecret()
      await insertCode(db, {
        hash: secretHash(code),
        sessionId: session.id,
        challenge: Buffer.from(challenge, 'base64url'),
        ttlSeconds: codeSeconds,
      })
      // The address is made here: a page or a link cannot send the code to another machine.
      return reply.send({ redirect: `http://127.0.0.1:${port}/?${new URLSearchParams({ code, state })}` })
    },
  )

  app.post<{ Body: Static<typeof exchangeBody> }>(
    '/console/authorizations/token',
    { schema: { body: exchangeBody } },
    async (request, reply) => {
      const { code, verifier } = request.body
      const found = await takeCode(db, secretHash(code))
      if (found === null || !timingSafeEqual(found.challenge, secretHash(verifier))) throw linkInvalid(usedCode)
      const { user_id: userId, session_id: sessionId } = found
      const expiresAt = new Date(Date.now() + terminalTokenSeconds * 1_000)
      const token = await deps.issueToken({ userId, sessionId, ttlSeconds: terminalTokenSeconds })
      log.info({ userId, address: clientAddress(request) }, 'console.terminal_signed_in')
      return reply.send({ token, expires_at: isoTime(expiresAt) })
    },
  )
}

const usedCode =
  'A code works once, for a minute, and only for the program that asked for it. Run "npx keyhook login" again.'
