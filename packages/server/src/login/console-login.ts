import { timingSafeEqual } from 'node:crypto'
import { parseCookie, stringifySetCookie } from 'cookie'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Logger } from 'pino'
import Type, { type Static } from 'typebox'
import type { Database } from '../db/database.ts'
import { clientAddress } from '../http/app.ts'
import { unavailable } from '../http/problems.ts'
import { closed } from '../http/schemas.ts'
import { Fault } from '../lib/faults.ts'
import type { SessionId, UserId } from '../lib/ids.ts'
import type { MasterKeys } from '../lib/master-keys.ts'
import { newSecret, secretHash } from '../lib/secrets.ts'
import { isoTime } from '../lib/time.ts'
import { checkOrigin, insertCode, linkInvalid, personSession, takeCode } from './console-sessions.ts'
import type { LoginFlow, OpenIdClient, OpenIdPerson } from './openid.ts'

const name = 'keyhook_login'
const context = 'console login'
const flowSeconds = 600

/** A page of the console with its query and its fragment, relative to the console: it cannot lead to another site. */
const returnBody = closed({
  return_to: Type.String({ pattern: '^[\\w-]+(/[\\w-]+)*/?(\\?[!"$-\\[\\]-~]*)?(#[\\w-]*)?$', maxLength: 500 }),
})

/**
 * `GET /console/login` sends the browser to the OpenID issuer, which sends it back to `/console/callback`. Between the two the
 * browser keeps the state, the nonce and the PKCE verifier in a sealed cookie. It is `Lax`: the way back starts at another site.
 * `POST /console/login` is for a page that wants to be shown again afterwards. Its address may hold the secret of an invitation, so it
 * is in the body and in the sealed cookie, and in no address that a server logs.
 */
export function addOpenIdLogin(
  app: FastifyInstance,
  deps: {
    client: OpenIdClient
    masterKeys: Pick<MasterKeys, 'seal' | 'open'>
    secure: boolean
    checkOrigin(request: FastifyRequest): void
    /** The user of a person, by the rules for login tokens; null if there is none. */
    userOf(person: OpenIdPerson, request: FastifyRequest): Promise<UserId | null>
    /** Opens a session and gives the browser its cookie. */
    signIn(request: FastifyRequest, reply: FastifyReply, userId: UserId): Promise<void>
  },
): void {
  const attributes = { name, httpOnly: true, sameSite: 'lax', secure: deps.secure } as const

  async function begin(reply: FastifyReply, returnTo: string): Promise<string> {
    const { url, flow } = await deps.client.begin().catch(outage)
    const { keyId, box } = deps.masterKeys.seal(JSON.stringify({ ...flow, returnTo }), context)
    const value = `${keyId}.${box.toString('base64url')}`
    reply.header('set-cookie', stringifySetCookie({ ...attributes, value, maxAge: flowSeconds }))
    return url
  }

  app.get('/console/login', async (_request, reply) => reply.redirect(await begin(reply, '')))

  app.post<{ Body: Static<typeof returnBody> }>(
    '/console/login',
    { schema: { body: returnBody } },
    async (request, reply) => {
      deps.checkOrigin(request)
      return reply.send({ url: await begin(reply, request.body.return_to) })
    },
  )

  app.get('/console/callback', async (request, reply) => {
    const flow = openFlow(parseCookie(request.headers.cookie ?? '')[name])
    const query = request.url.slice(request.url.indexOf('?'))
    const person = flow === null ? null : await deps.client.finish(query, flow).catch(outage)
    reply.header('set-cookie', stringifySetCookie({ ...attributes, value: '', maxAge: 0 }))
    if (person === null) return reply.redirect('sign-in?error=refused')
    const userId = await deps.userOf(person, request)
    if (userId === null) return reply.redirect('sign-in?error=unknown_user')
    await deps.signIn(request, reply, userId)
    return reply.redirect(`./${flow!.returnTo}`)
  })

  function openFlow(cookie: string | undefined): (LoginFlow & { returnTo: string }) | null {
    const [keyId, box] = cookie?.split('.') ?? []
    if (!keyId || !box) return null
    try {
      return JSON.parse(deps.masterKeys.open({ keyId, box: Buffer.from(box, 'base64url') }, context))
    } catch {
      // Of another installation, or changed.
      return null
    }
  }
}

function outage(error: unknown): never {
  if (error instanceof Fault) throw error
  throw unavailable(`the OpenID issuer: ${error}`, error)
}

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
      const session = await personSession(db, request)
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
