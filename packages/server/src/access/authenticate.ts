import { Fault } from '../lib/faults.ts'
import type { OrgId, UserId } from '../lib/ids.ts'
import type { Access, AccessLookup, NamedUser, OrganizationRow } from './access.ts'
import type { Actor, OperatorActor } from './audit.ts'
import { isBeyondDatabases, type Restrictions } from './restrictions.ts'
import type { Permission } from './roles.ts'

/** The user of a login token: issuer and subject together, since another issuer may use the same subject. */
type Login = {
  issuer: string
  subject: string
  tokenId: string | null
  /** Only if the issuer has verified it: otherwise a user could enter the address of another. */
  verifiedEmail: string | null
  operator: boolean
  /** The console session that the token was issued for: it ends with the session. */
  sessionId: string | null
  /** An operator has opened this organization for reading. The token acts as no user. */
  openedOrg: string | null
  /** In seconds since 1970, as in the token. */
  expiresAt: number
}

/** The subjects of the local issuer are our user ids. No OpenID issuer can have this name: theirs are URLs. */
export const localIssuerName = 'urn:keyhook:local'

/** `verify` returns null for an invalid token, after `onRefused`, and throws when it cannot decide because of an outage. */
export type LoginTokens = { verify(token: string, onRefused?: OnRefused): Promise<Login | null> }

/** The check that a login token failed. For the operator's log: callers get the same 401 for each of them. */
export type RefusalCheck =
  | 'form'
  | 'issuer'
  | 'key'
  | 'algorithm'
  | 'signature'
  | 'type'
  | 'audience'
  | 'time'
  | 'subject'
  | 'client'

export type Refusal = { check: RefusalCheck; detail: string }

export type OnRefused = (refusal: Refusal) => void

/** `expiresAt`: when the token ends, in seconds since 1970; null for a key that does not expire. */
export type Authenticated = { access: Access; actor: Actor; expiresAt: number | null }

export type Authenticate = {
  member: AuthenticateMember
  operator(authorization: string | undefined, address: string): Promise<OperatorActor>
  /** The same checks for a token that is not the one of the request. Null where a request with it would be answered 401. */
  identify: Identify
  /** The user of a person who has logged in at an OpenID issuer, as for a token of that issuer; null if there is none. */
  person(
    login: { issuer: string; subject: string; verifiedEmail: string | null },
    address: string,
  ): Promise<UserId | null>
}

export type Identify = (token: string, target: Target) => Promise<Authenticated | null>

type Target = { orgId: OrgId | null; address: string }

/** Throws for a token that is invalid by its form; otherwise calls back after the database lookup. */
type AuthenticateMember = (authorization: string | undefined, target: Target, done: Done) => void

type Done = (error: unknown, authenticated: Authenticated | null) => void

/** Of no user: an operator who reads has created nothing. */
const noUserId: UserId = 'usr_00000000000000000000000000'

/** The header's grammar (RFC 6750, 2.1), with the scheme in any case (RFC 9110, 11.1). */
const bearerScheme = /^bearer(?![^\s,])/i
const bearer = /^bearer +([A-Za-z0-9._~+/-]+=*) *$/i
const basic = /^Basic +([A-Za-z0-9+/]+=*) *$/i
const tokenShape = /^[A-Za-z0-9._~+/-]+=*$/

/** What the first login of a user changes. */
export type FirstLogins = {
  /** Records the subject of a user who was found by e-mail. False if another subject was recorded in the meantime. */
  pin(userId: UserId, subject: string, actor: Actor): Promise<boolean>
  /** Creates the user of a login, where the operator wants that. Returns whether to look again. */
  create(login: { subject: string; verifiedEmail: string }): Promise<boolean>
}

export function createAuthenticate(deps: {
  lookup: AccessLookup
  loginTokens: LoginTokens
  firstLogins: FirstLogins
  /** Whether an operator token with this id is stored and not revoked. */
  isOperatorToken(id: string): Promise<boolean>
  /** Whether this console session is one of the operator and lasts. */
  isOperatorSession(id: string): Promise<boolean>
  findOrganization(id: OrgId): Promise<OrganizationRow | null>
}): Authenticate {
  function asKey(token: string, address: string, done: Done): void {
    const isLookedUp = deps.lookup.key(token, (error, access) => {
      if (error !== null) done(error, null)
      else if (access?.kind !== 'key') {
        done(invalidToken('no such active key, or its user has left the organization'), null)
      } else {
        const actor = { kind: 'key', userId: access.userId, keyId: access.keyId, address } as const
        const { expiresAt } = access
        done(null, { access, actor, expiresAt: expiresAt && Math.floor(expiresAt.getTime() / 1_000) })
      }
    })
    if (!isLookedUp) throw invalidToken('neither a key by its checksum nor a JWT')
  }

  const lookUp = (login: Login, orgId: OrgId | null): Promise<Access | null> =>
    new Promise((resolve, reject) => {
      const found = (error: unknown, access: Access | null) => (error === null ? resolve(access) : reject(error))
      deps.lookup.login({ names: namedUser(login), orgId }, found)
    })

  async function accessOf(login: Login, { orgId, address }: Target): Promise<Authenticated> {
    const { subject, verifiedEmail, tokenId, expiresAt } = login
    const actorOf = ({ userId }: Access) => ({ kind: 'login', userId, tokenId, address }) as const
    let access = await lookUp(login, orgId)
    if (access === null && login.issuer !== localIssuerName && verifiedEmail !== null) {
      if (await deps.firstLogins.create({ subject, verifiedEmail })) access = await lookUp(login, orgId)
    }
    if (access?.kind === 'login' && access.isByEmail) {
      const isPinned = await deps.firstLogins.pin(access.userId, subject, actorOf(access))
      // Another request was first, with this subject or with another one.
      if (!isPinned) access = await lookUp(login, orgId)
    }
    if (access === null) throw invalidToken(noUser(login))
    return { access, actor: actorOf(access), expiresAt }
  }

  /** A token of the issuers, with the reason in the fault if it is none. */
  async function verify(token: string): Promise<Login> {
    let why = 'login token'
    const login = await deps.loginTokens.verify(token, ({ check, detail }) => {
      why = `login token: ${check}: ${detail}`
    })
    if (login === null) throw invalidToken(why)
    return login
  }

  async function asLogin(token: string, target: Target): Promise<Authenticated> {
    const login = await verify(token)
    if (login.operator) throw invalidToken('an operator token, which acts as no user')
    if (login.openedOrg !== null) return accessOfReader(login, login.openedOrg, target)
    return accessOf(login, target)
  }

  /** The token ends with the operator token or the console session that it was made with. */
  async function checkOperator({ tokenId, sessionId }: Login): Promise<void> {
    const isGood =
      sessionId !== null
        ? await deps.isOperatorSession(sessionId)
        : tokenId !== null && (await deps.isOperatorToken(tokenId))
    if (!isGood) throw invalidToken('the operator token is revoked, or its console session has ended')
  }

  async function accessOfReader(login: Login, opened: string, { orgId, address }: Target): Promise<Authenticated> {
    await checkOperator(login)
    const organization = orgId === opened ? await deps.findOrganization(orgId) : null
    const membership = organization && ({ role: 'owner', organization } as const)
    const actor = { kind: 'operator', tokenId: login.tokenId, address } as const
    return { access: { kind: 'operator', userId: noUserId, membership }, actor, expiresAt: login.expiresAt }
  }

  function check(token: string, { orgId, address }: Target, done: Done): void {
    // A JWT has dots and a key has none.
    if (!token.includes('.')) asKey(token, address, done)
    else
      asLogin(token, { orgId, address }).then(
        (found) => done(null, found),
        (error) => done(error, null),
      )
  }

  return {
    member: (authorization, target, done) => check(bearerToken(authorization), target, done),
    identify: (token, target) =>
      new Promise<Authenticated | null>((resolve, reject) => {
        if (!tokenShape.test(token)) throw invalidToken('not the characters of a token')
        check(token, target, (error, found) => {
          if (found === null) reject(error)
          // Acts as no user.
          else if (found.access.kind === 'operator') reject(invalidToken('a token of an operator who reads'))
          else resolve(found)
        })
      }).catch(nullIfInvalid),
    async person(known, address) {
      const login = { ...known, tokenId: null, operator: false, sessionId: null, openedOrg: null, expiresAt: 0 }
      const found = await accessOf(login, { orgId: null, address }).catch(nullIfInvalid)
      return found?.access.userId ?? null
    },
    async operator(authorization, address) {
      const login = await verify(bearerToken(authorization))
      if (!login.operator) {
        // The token of a removed user is answered 401 here too.
        if (login.openedOrg === null) await accessOf(login, { orgId: null, address })
        throw operatorOnly()
      }
      await checkOperator(login)
      return { kind: 'operator', tokenId: login.tokenId, address, sessionId: login.sessionId }
    },
  }
}

function nullIfInvalid(error: unknown): null {
  if (error instanceof Fault && error.code === 'auth.invalid_token') return null
  throw error
}

/** Only our own issuer may name a user id: at another one, users might choose their subject, and user ids are no secret. */
const namedUser = ({ issuer, subject, verifiedEmail, sessionId }: Login): NamedUser =>
  issuer === localIssuerName ? { userId: subject, sessionId } : { subject, verifiedEmail }

function noUser({ issuer, subject, verifiedEmail }: Login): string {
  if (issuer === localIssuerName)
    return `login token: user: there is no user ${subject}, or the console session has ended`
  const email = verifiedEmail === null ? 'it has no verified e-mail address' : `nor the address ${verifiedEmail}`
  return `login token: user: no user has the subject ${JSON.stringify(subject)}, ${email}`
}

export function bearerToken(authorization: string | undefined): string {
  const token = authorization === undefined ? undefined : bearer.exec(authorization)?.[1]
  if (token !== undefined) return token
  if (authorization === undefined || !bearerScheme.test(authorization)) throw authenticationRequired()
  throw invalidToken('the header is not "Bearer <token>"')
}

/** RFC 6749, 2.3.1: many clients of RFC 7662 send an id and a secret. The secret is a token, whatever the id. */
export function bearerOfClient(authorization: string | undefined): string | undefined {
  const encoded = authorization === undefined ? undefined : basic.exec(authorization)?.[1]
  if (encoded === undefined) return authorization
  const pair = Buffer.from(encoded, 'base64').toString()
  // Some clients percent-encode more than they have to; no other character of a token needs it.
  const secret = pair.slice(pair.indexOf(':') + 1).replace(/%2[def]|%5f|%7e/gi, decodeURIComponent)
  return `Bearer ${secret}`
}

const realm = 'Bearer realm="keyhook"'

/** RFC 6750, 3.1: no error code when the request carried no credentials at all. */
const authenticationRequired = (): Fault =>
  new Fault('auth.required', {
    public: 'Send "Authorization: Bearer <token>" with an API key or a login token.',
    headers: { 'www-authenticate': realm },
  })

/** One answer for revoked, unknown, expired and malformed tokens, so that tokens cannot be probed. */
export const invalidToken = (internal: string): Fault =>
  new Fault('auth.invalid_token', {
    public: 'The token is malformed, expired, revoked or unknown.',
    internal,
    headers: { 'www-authenticate': `${realm}, error="invalid_token"` },
  })

export const permissionMissing = (permission: string, role: string): Fault =>
  new Fault('auth.permission_missing', {
    public: `This needs the permission ${permission}, which your role in this organization (${role}) does not have.`,
    headers: { 'www-authenticate': `${realm}, error="insufficient_scope", scope="${permission}"` },
  })

/** The key may have the permission, and be limited to databases that it says nothing about. */
export const keyLacks = (permission: Permission, restrictions: Restrictions | null): Fault =>
  isBeyondDatabases(restrictions, permission)
    ? databaseKeyRefused()
    : new Fault('auth.key_restricted', {
        public: `This needs the permission ${permission}, which this API key does not have. Your role does not matter here.`,
        headers: { 'www-authenticate': `${realm}, error="insufficient_scope", scope="${permission}"` },
      })

export const keyRestricted = (detail: string): Fault =>
  new Fault('auth.key_restricted', {
    public: detail,
    headers: { 'www-authenticate': `${realm}, error="insufficient_scope"` },
  })

export const databaseKeyRefused = (): Fault =>
  keyRestricted('This API key is limited to some databases, and cannot do this.')

export const otherDatabases = (): Fault => keyRestricted('This API key is limited to other databases.')

export const addressRefused = (address: string): Fault =>
  new Fault('auth.address_refused', { public: `This API key cannot be used from the address ${address}.` })

export const loginRequired = (
  detail = 'This takes a login token. An API key cannot do it, whatever the role of its user.',
): Fault =>
  new Fault('auth.login_required', {
    public: detail,
    headers: { 'www-authenticate': `${realm}, error="insufficient_scope", scope="login"` },
  })

const operatorOnly = (): Fault =>
  new Fault('auth.permission_missing', {
    public: 'This needs an operator token, as "npx keyhook token issue --operator" mints.',
    headers: { 'www-authenticate': `${realm}, error="insufficient_scope", scope="operator"` },
  })

export const readingOnly = (): Fault =>
  new Fault('auth.permission_missing', {
    public: 'An operator who has opened an organization can read it, and change nothing.',
    headers: { 'www-authenticate': `${realm}, error="insufficient_scope", scope="login"` },
  })
