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
  created_at: string
  last_used_at: string | null
}

export const keys = (api: Api) => ({
  /** Never repeated by itself: when the answer is lost, revoke the key that you find in the list, and create another. */
  create: (key: NewApiKey, options: OrganizationOptions = {}): Promise<CreatedApiKey> =>
    api.change('POST', api.published(options, 'api-keys'), key, options),

  /** Active keys, newest first; with `status` others too. */
  list: ({ status, ...options }: ListOptions & { status?: 'active' | 'revoked' | 'all' } = {}): List<ApiKey> =>
    api.list(api.published(options, 'api-keys'), options, { status }),

  /** The key is refused from now on. */
  revoke: (id: string, options: OrganizationOptions = {}): Promise<void> =>
    api.erase(api.published(options, 'api-keys', id), options),
})
