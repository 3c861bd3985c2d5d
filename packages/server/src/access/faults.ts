import { Fault } from '../lib/faults.ts'

const realm = 'Bearer realm="keyhook"'

/** RFC 6750, 3.1: no error code when the request carried no credentials at all. */
export const authenticationRequired = (): Fault =>
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

export const keyLacks = (permission: string): Fault =>
  new Fault('auth.key_restricted', {
    public: `This needs the permission ${permission}, which this API key does not have. Your role does not matter here.`,
    headers: { 'www-authenticate': `${realm}, error="insufficient_scope", scope="${permission}"` },
  })

export const keyRestricted = (detail: string): Fault =>
  new Fault('auth.key_restricted', {
    public: detail,
    headers: { 'www-authenticate': `${realm}, error="insufficient_scope"` },
  })

export const addressRefused = (address: string): Fault =>
  new Fault('auth.address_refused', { public: `This API key cannot be used from the address ${address}.` })

export const loginRequired = (
  detail = 'This takes a login token. An API key cannot do it, whatever the role of its user.',
): Fault =>
  new Fault('auth.login_required', {
    public: detail,
    headers: { 'www-authenticate': `${realm}, error="insufficient_scope", scope="login"` },
  })

export const operatorOnly = (): Fault =>
  new Fault('auth.permission_missing', {
    public: 'This needs an operator token, as "npx keyhook token issue --operator" mints.',
    headers: { 'www-authenticate': `${realm}, error="insufficient_scope", scope="operator"` },
  })

export const readingOnly = (): Fault =>
  new Fault('auth.permission_missing', {
    public: 'An operator who has opened an organization can read it, and change nothing.',
    headers: { 'www-authenticate': `${realm}, error="insufficient_scope", scope="login"` },
  })
