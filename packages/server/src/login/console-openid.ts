import { parseCookie, stringifySetCookie } from 'cookie'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import Type, { type Static } from 'typebox'
import { unavailable } from '../http/problems.ts'
import { closed } from '../http/schemas.ts'
import { Fault } from '../lib/faults.ts'
import type { UserId } from '../lib/ids.ts'
import type { MasterKeys } from '../lib/master-keys.ts'
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
