import type { Actor } from '../domain/audit.ts'
import type { OrgId } from '../kernel/ids.ts'
import { type Login, localIssuerName } from '../login/login-tokens.ts'
import type { Access, NamedUser } from '../store/access.ts'
import type { AccessLookup } from '../store/access-batch.ts'
import { authenticationRequired, invalidToken, operatorOnly } from './problems.ts'

export type Authenticated = { access: Access; actor: Actor }

type OperatorActor = Extract<Actor, { kind: 'operator' }>

export type Authenticate = {
  member: AuthenticateMember
  operator(authorization: string | undefined, address: string): Promise<OperatorActor>
}

/** Throws at what it can refuse at once, and calls back with what the database says. */
type AuthenticateMember = (
  authorization: string | undefined,
  asksFor: { orgId: OrgId | null; address: string },
  done: Done,
) => void

type Done = (error: unknown, authenticated: Authenticated | null) => void

/** The header's grammar (RFC 6750, 2.1), with the scheme in any case (RFC 9110, 11.1). */
const bearerScheme = /^bearer(?![^\s,])/i
const bearer = /^bearer +([A-Za-z0-9._~+/-]+=*) *$/i

export function createAuthenticate(deps: {
  lookup: AccessLookup
  loginTokens: { verify(token: string): Promise<Login | null> }
}): Authenticate {
  function asKey(token: string, address: string, done: Done): void {
    const isAsked = deps.lookup.key(token, (error, access) => {
      if (error !== null) done(error, null)
      else if (access?.kind !== 'key') {
        done(invalidToken('no such active key, or its user has left the organization'), null)
      } else done(null, { access, actor: { kind: 'key', userId: access.userId, keyId: access.keyId, address } })
    })
    if (!isAsked) throw invalidToken('neither a key by its checksum nor a JWT')
  }

  async function accessOf(login: Login, orgId: OrgId | null): Promise<Access> {
    const access = await new Promise<Access | null>((resolve, reject) => {
      const found = (error: unknown, access: Access | null) => (error === null ? resolve(access) : reject(error))
      deps.lookup.login({ names: namedUser(login), orgId }, found)
    })
    if (access === null) throw invalidToken('the login token is good, but no user belongs to it')
    return access
  }

  async function asLogin(token: string, orgId: OrgId | null, address: string): Promise<Authenticated> {
    const login = await deps.loginTokens.verify(token)
    if (login === null || login.operator) throw invalidToken('not a valid login token of a user')
    const access = await accessOf(login, orgId)
    return { access, actor: { kind: 'login', userId: access.userId, tokenId: login.tokenId, address } }
  }

  return {
    member(authorization, { orgId, address }, done) {
      const token = bearerToken(authorization)
      // A JWT has dots and a key has none.
      if (!token.includes('.')) asKey(token, address, done)
      else
        asLogin(token, orgId, address).then(
          (found) => done(null, found),
          (error) => done(error, null),
        )
    },
    async operator(authorization, address) {
      const login = await deps.loginTokens.verify(bearerToken(authorization))
      if (login === null) throw invalidToken('not a valid token')
      if (!login.operator) {
        // Of somebody who is gone it is as worthless here as anywhere.
        await accessOf(login, null)
        throw operatorOnly()
      }
      return { kind: 'operator', tokenId: login.tokenId, address }
    },
  }
}

/** User ids are shown to members and in the audit log: at an issuer whose subjects people choose, anybody could be one. */
const namedUser = ({ issuer, subject, verifiedEmail }: Login): NamedUser =>
  issuer === localIssuerName ? { userId: subject } : { subject, verifiedEmail }

/** What stands behind the scheme. */
export function bearerToken(authorization: string | undefined): string {
  const token = authorization === undefined ? undefined : bearer.exec(authorization)?.[1]
  if (token !== undefined) return token
  if (authorization === undefined || !bearerScheme.test(authorization)) throw authenticationRequired()
  throw invalidToken('the header is not "Bearer <token>"')
}
