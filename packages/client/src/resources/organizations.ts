import type { Api } from '../api.ts'
import type { List, PageOptions } from '../list.ts'
import type { CallOptions } from '../transport.ts'

export type Organization = { id: string; name: string; created_at: string }

export type OrganizationSettings = { name: string }

export const organizations = (api: Api) => ({
  /** The organizations that the token can reach: with an API key, the one it was created in. */
  list: (options: CallOptions & PageOptions = {}): List<Organization> => api.list('/api/v1/organizations', options),

  /** Renames it. Only owners may. */
  update: async (id: string, settings: OrganizationSettings, options: CallOptions = {}): Promise<Organization> =>
    api.change('PATCH', api.platform({ organization: id }), settings, options),
})
