import type { Api, ListOptions, OrganizationOptions } from '../api.ts'
import type { List } from '../list.ts'

export type NewApiKey = { name: string }

/** `api_key` is shown here and never again. */
export type CreatedApiKey = { id: string; name: string; key_prefix: string; api_key: string }

export type ApiKey = {
  id: string
  name: string
  key_prefix: string
  status: 'active' | 'revoked'
  created_by: string
  /** The key that created it; null for a key created with a login token. */
  created_by_key: string | null
  /** Whether the user it acts as has left the organization; it is refused then. */
  creator_left: boolean
  created_at: string
  last_used_at: string | null
}

export type RevokedKeys = { revoked: string[] }

export const keys = (api: Api) => ({
  /** Never repeated by itself: when the answer is lost, revoke the key that you find in the list, and create another. */
  create: async (key: NewApiKey, options: OrganizationOptions = {}): Promise<CreatedApiKey> =>
    api.change('POST', api.published(options, 'api-keys'), key, options),

  /** Active keys, newest first; with `status` others too. */
  list: ({ status, ...options }: ListOptions & { status?: 'active' | 'revoked' | 'all' } = {}): List<ApiKey> =>
    api.list(api.published(options, 'api-keys'), options, { status }),

  /** The key is refused from now on. */
  revoke: async (id: string, options: OrganizationOptions = {}): Promise<void> =>
    api.erase(api.published(options, 'api-keys', id), options),

  /** Revokes the key, all keys that were created with it, and so on, in one transaction. For a key that has leaked. */
  revokeWithDescendants: async (id: string, options: OrganizationOptions = {}): Promise<RevokedKeys> =>
    api.change('POST', api.platform(options, 'api-keys', id, 'revoke'), undefined, options),
})
