import { hashApiKey, isApiKey } from '../domain/api-key.ts'
import type { Actor } from '../domain/audit.ts'
import type { OrgId } from '../kernel/ids.ts'
import type { Login } from '../login/login.ts'
import type { Access } from '../store/access.ts'
import type { AccessLookup } from '../store/access-batch.ts'
import { authenticationRequired, invalidToken, operatorOnly } from './problems.ts'

type Authenticated = { access: Access; actor: Actor }

type OperatorActor = Extract<Actor, { kind: 'operator' }>

export type Authenticate = {
  member: AuthenticateMember
  operator(authorization: string | undefined, address: string): Promise<OperatorActor>
}

type AuthenticateMember = (
  authorization: string | undefined,
  asksFor: { orgId: OrgId | null; address: string },
) => Promise<Authenticated>

/** The header's grammar (RFC 6750, 2.1), with the scheme in any case (RFC 9110, 11.1). */
const bearer = /^bearer +([A-Za-z0-9._~+/-]+=*) *$/i

export function createAuthenticate(deps: {
  lookup: AccessLookup
  loginTokens: { verify(token: string): Promise<Login | null> }
}): Authenticate {
  async function asKey(token: string, address: string): Promise<Authenticated> {
    if (!isApiKey(token)) throw invalidToken('neither a key by its checksum nor a JWT')
    const access = await deps.lookup({ kind: 'key', hash: hashApiKey(token) })
    if (access?.kind !== 'key') throw invalidToken('no such active key, or its user has left the organization')
    return { access, actor: { kind: 'key', userId: access.userId, keyId: access.keyId, address } }
  }

  async function asLogin(token: string, orgId: OrgId | null, address: string): Promise<Authenticated> {
    const login = await deps.loginTokens.verify(token)
    if (login === null || login.operator) throw invalidToken('not a valid login token of a user')
    const { subject, verifiedEmail, tokenId } = login
    const access = await deps.lookup({ kind: 'login', subject, verifiedEmail, orgId })
    if (access === null) throw invalidToken('the login token is good, but no user belongs to it')
    return { access, actor: { kind: 'login', userId: access.userId, tokenId, address } }
  }

  return {
    member(authorization, { orgId, address }) {
      const token = bearerToken(authorization)
      // A JWT has dots and a key has none.
      return token.includes('.') ? asLogin(token, orgId, address) : asKey(token, address)
    },
    async operator(authorization, address) {
      const login = await deps.loginTokens.verify(bearerToken(authorization))
      if (login === null) throw invalidToken('not a valid token')
      if (!login.operator) throw operatorOnly()
      return { kind: 'operator', tokenId: login.tokenId, address }
    },
  }
}

function bearerToken(authorization: string | undefined): string {
  if (authorization === undefined || !/^bearer\b/i.test(authorization)) throw authenticationRequired()
  const token = bearer.exec(authorization)?.[1]
  if (token === undefined) throw invalidToken('the header is not "Bearer <token>"')
  return token
}
