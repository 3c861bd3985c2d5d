import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { exportJWK, generateKeyPair, type JWK } from 'jose'
import Provider from 'oidc-provider'
import { logInWithBrowser } from './browser.ts'

export const audience = 'https://keyhook.example/api'
export const person = { subject: 'ada', email: 'ada@example.com' }
export const consoleUrl = 'https://keyhook.example/db'
const redirectUri = 'https://app.example/callback'

export type RealIssuer = Awaited<ReturnType<typeof startRealIssuer>>

export async function newSigningKey(alg = 'RS256'): Promise<JWK & { kid: string; alg: string }> {
  const { privateKey } = await generateKeyPair(alg, { extractable: true })
  return { ...(await exportJWK(privateKey)), alg, use: 'sig', kid: crypto.randomUUID() }
}

/** oidc-provider behind a real socket. Starting it on the port of a stopped one simulates a restart. */
export async function startRealIssuer(options: {
  signingKey: JWK & { alg: string }
  port?: number
  ttlSeconds?: number
  emailVerified?: boolean
  /** Access tokens with `typ: JWT` and `azp`, as many products issue them. */
  plainJwt?: boolean
  /** Where the console is, to which people come back. */
  consoleUrl?: string
}) {
  const { signingKey, ttlSeconds = 600, emailVerified = true } = options
  const server = createServer()
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(options.port ?? 0, '127.0.0.1', resolve)
  })
  const { port } = server.address() as AddressInfo
  const issuer = `http://127.0.0.1:${port}`

  const provider = new Provider(issuer, {
    jwks: { keys: [signingKey] },
    cookies: { keys: ['only for tests'] },
    clients: [
      {
        client_id: 'robot',
        client_secret: 'robot-secret',
        grant_types: ['client_credentials'],
        redirect_uris: [],
        response_types: [],
        id_token_signed_response_alg: signingKey.alg as 'RS256',
      },
      {
        client_id: 'web',
        client_secret: 'web-secret',
        grant_types: ['authorization_code'],
        redirect_uris: [redirectUri, `${options.consoleUrl ?? consoleUrl}/console/callback`],
        id_token_signed_response_alg: signingKey.alg as 'RS256',
      },
    ],
    enabledJWA: { idTokenSigningAlgValues: [signingKey.alg as 'RS256'] },
    scopes: ['openid', 'email'],
    claims: { email: ['email', 'email_verified'] },
    ttl: {
      AccessToken: ttlSeconds,
      ClientCredentials: ttlSeconds,
      Grant: 600,
      Interaction: 600,
      Session: 600,
      IdToken: 600,
    },
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        useGrantedResource: () => true,
        getResourceServerInfo: (_ctx, resource) => ({
          scope: 'operator',
          audience: resource,
          accessTokenTTL: ttlSeconds,
          accessTokenFormat: 'jwt',
          jwt: { sign: { alg: signingKey.alg as 'RS256' } },
        }),
      },
    },
    ...(options.plainJwt && {
      formats: {
        customizers: {
          jwt(_ctx, _token, jwt) {
            const { client_id: azp, ...payload } = jwt.payload
            Object.assign(jwt, { header: { typ: 'JWT' }, payload: { ...payload, azp } })
          },
        },
      },
    }),
    findAccount: (_ctx, accountId) => ({
      accountId,
      claims: () => ({ sub: accountId, email: person.email, email_verified: emailVerified }),
    }),
    extraTokenClaims: (_ctx, token) =>
      token.kind === 'AccessToken' ? { email: person.email, email_verified: emailVerified } : undefined,
    interactions: { url: (_ctx, interaction) => `/interaction/${interaction.uid}` },
    loadExistingGrant: async (ctx) => {
      const grant = new ctx.oidc.provider.Grant({
        clientId: ctx.oidc.client!.clientId,
        accountId: ctx.oidc.session!.accountId!,
      })
      grant.addOIDCScope('openid email')
      grant.addResourceScope(audience, 'operator')
      await grant.save()
      return grant
    },
  })
  const callback = provider.callback()
  server.on('request', (request, response) => {
    if (request.url?.startsWith('/interaction/')) {
      provider.interactionFinished(request, response, { login: { accountId: person.subject } }).catch((error) => {
        response.writeHead(500).end(String(error))
      })
    } else callback(request, response)
  })

  return {
    issuer,
    port,
    signingKey,
    robotToken: (request: { resource?: string } = {}) => robotToken(issuer, request.resource ?? audience),
    /** The tokens of a login in a browser. */
    logIn: () => logInWithBrowser({ issuer, audience, redirectUri, clientId: 'web', clientSecret: 'web-secret' }),
    stop: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

async function robotToken(issuer: string, resource: string): Promise<string> {
  const response = await fetch(`${issuer}/token`, {
    method: 'POST',
    // Not kept alive: the next read would find it closed.
    headers: { authorization: `Basic ${btoa('robot:robot-secret')}`, connection: 'close' },
    body: new URLSearchParams({ grant_type: 'client_credentials', resource, scope: 'operator' }),
  })
  const answer = (await response.json()) as { access_token?: string }
  if (answer.access_token === undefined) throw new Error(`no token: ${JSON.stringify(answer)}`)
  return answer.access_token
}
