import type { Api } from '../api.ts'
import type { CallOptions } from '../transport.ts'
import type { Role } from './members.ts'

/** What a token may do now (RFC 7662). Fields other than `active` are only there for an active token. */
export type Introspection = {
  active: boolean
  token_type?: 'api_key' | 'login'
  /** The user. */
  sub?: string
  organization_id?: string | null
  role?: Role | null
  permissions?: string[]
  /** The permissions, separated by spaces. */
  scope?: string
  /** The only databases that a key reaches; absent: all. */
  databases?: string[]
  /** The only networks that a key may be used from; absent: all. */
  allowed_networks?: string[]
  /** With `allowed_networks`: whether the request named the `address`. If not, check it yourself. */
  address_checked?: boolean
  key_id?: string
  /** When the token ends, in seconds since 1970; absent for a key that does not expire. */
  exp?: number
  organizations?: { id: string; role: Role }[]
}

/** `address`: where the request came from. A key that is limited to other networks is not active. */
export type IntrospectionRequest = {
  token: string
  organization_id?: string
  address?: string
  token_type_hint?: string
}
export type IntrospectionBatch = { tokens: string[]; organization_id?: string; address?: string }

export const introspection = (api: Api) => ({
  /** Whether a token is accepted now, and what it may do. */
  introspect: async (request: IntrospectionRequest, options: CallOptions = {}): Promise<Introspection> =>
    api.idempotent('/operator/v1/introspect', request, options),

  /** The same for up to 1,000 tokens, in their order. */
  introspectBatch: async (batch: IntrospectionBatch, options: CallOptions = {}): Promise<Introspection[]> =>
    api.idempotent('/operator/v1/introspect/batch', batch, options),
})
