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
  key_id?: string
  exp?: number
  organizations?: { id: string; role: Role }[]
}

export type IntrospectionRequest = { token: string; organization_id?: string; token_type_hint?: string }
export type IntrospectionBatch = { tokens: string[]; organization_id?: string }

export const introspection = (api: Api) => ({
  /** Whether a token is accepted now, and what it may do. */
  introspect: async (request: IntrospectionRequest, options: CallOptions = {}): Promise<Introspection> =>
    api.idempotent('/operator/v1/introspect', request, options),

  /** The same for up to 1,000 tokens, in their order. */
  introspectBatch: async (batch: IntrospectionBatch, options: CallOptions = {}): Promise<Introspection[]> =>
    api.idempotent('/operator/v1/introspect/batch', batch, options),
})
