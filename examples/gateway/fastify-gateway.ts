import type { FastifyInstance, FastifyRequest } from 'fastify'

/** What Keyhook knows about the token of a request. */
export type Caller = {
  active: true
  token_type: 'api_key' | 'login'
  /** The user. */
  sub: string
  organization_id: string | null
  role: 'owner' | 'admin' | 'member' | null
  permissions: string[]
  /** The same, separated by spaces. */
  scope: string
  key_id?: string
  /** When the token ends, in seconds since 1970. */
  exp?: number
  /** The only databases that the key reaches; absent: all. */
  databases?: string[]
  /** The only networks that it may be used from, which were checked; absent: all. */
  allowed_networks?: string[]
}

declare module 'fastify' {
  interface FastifyRequest {
    keyhook: Caller | null
  }
}

type Options = {
  /** Where Keyhook is. */
  url: string
  operatorToken: string
  /** The organization that a request is about, if its path names one. */
  organizationOf?: (request: FastifyRequest) => string | undefined
  /** The permission of Keyhook that a request needs. If there is none, keys are refused, because they may be limited to some. */
  permissionOf: (request: FastifyRequest) => string | undefined
  /** The database that a request is about, if its path names one. */
  databaseOf?: (request: FastifyRequest) => string | undefined
  timeoutMs?: number
}

const problem = (status: number, title: string) => ({ type: 'about:blank', status, title })

/**
 * Asks Keyhook about the token of every request, before its body is read. `request.keyhook` is who it is. Nothing is cached, so
 * a revoked key is refused by the next request. If Keyhook cannot be asked, the answer is 503: nobody gets in unchecked.
 */
async function register(app: FastifyInstance, options: Options): Promise<void> {
  const { organizationOf = () => undefined, permissionOf, databaseOf = () => undefined, timeoutMs = 5_000 } = options

  async function introspect(request: FastifyRequest, token: string): Promise<Caller | { active: false }> {
    const organizationId = organizationOf(request)
    const response = await fetch(`${options.url}/operator/v1/introspect`, {
      method: 'POST',
      headers: { authorization: `Bearer ${options.operatorToken}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        token,
        address: request.ip,
        ...(organizationId !== undefined && { organization_id: organizationId }),
      }),
      signal: AbortSignal.timeout(timeoutMs),
    })
    // 422: an organization id that cannot exist.
    if (response.status === 422) return { active: false }
    if (!response.ok) throw new Error(`Keyhook answered ${response.status}`)
    return (await response.json()) as Caller | { active: false }
  }

  /** A key that is limited to some databases reaches nothing else. */
  function isAllowed({ token_type, permissions, databases }: Caller, request: FastifyRequest): boolean {
    const permission = permissionOf(request)
    if (databases !== undefined && !databases.includes(databaseOf(request) ?? '')) return false
    return permission === undefined ? token_type === 'login' : permissions.includes(permission)
  }

  app.decorateRequest('keyhook', null)
  app.addHook('onRequest', async (request, reply) => {
    const token = /^bearer +(\S+) *$/i.exec(request.headers.authorization ?? '')?.[1]
    if (token === undefined) {
      return reply.code(401).header('www-authenticate', 'Bearer').send(problem(401, 'A token is required'))
    }
    try {
      const found = await introspect(request, token)
      if (!found.active) {
        reply.header('www-authenticate', 'Bearer error="invalid_token"')
        return reply.code(401).send(problem(401, 'The token is not valid here'))
      }
      if (!isAllowed(found, request)) {
        reply.header('www-authenticate', 'Bearer error="insufficient_scope"')
        return reply.code(403).send(problem(403, 'The token does not allow this'))
      }
      request.keyhook = found
    } catch (error) {
      request.log.error({ err: error }, 'keyhook.not_reached')
      return reply.code(503).header('retry-after', '2').send(problem(503, 'The token cannot be checked now'))
    }
  })
}

/** The mark makes the hook apply to the routes beside this plugin, and not only to those inside of it. */
export const keyhook = Object.assign(register, { [Symbol.for('skip-override')]: true })
