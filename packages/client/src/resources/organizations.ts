import type { Api, OrganizationOptions } from '../api.ts'
import type { List, PageOptions } from '../list.ts'
import type { CallOptions } from '../transport.ts'

export type Organization = { id: string; name: string; created_at: string }

export type OrganizationSettings = { name: string }

/** `used`: null where it is not counted; `limit`: null for none. `is_own`: the limit was set for this organization, and not for all. */
export type Quota = { used: number | null; limit: number | null; is_own: boolean }

export type QuotaName =
  | 'keys'
  | 'webhooks'
  | 'databases'
  /** People, service members and open invitations together. */
  | 'members'
  /** By the storage limits of all databases together. */
  | 'database_bytes'
  /** Of all backups and write-ahead logs. */
  | 'archive_bytes'
  /** Of each API key in a minute. */
  | 'key_requests'
  /** Of all API keys together in a minute. */
  | 'requests'

export type QuotaUse = Record<QuotaName, Quota>

/** The name of the organization, or the e-mail address of a user. */
export type Confirmation = { confirm: string }

export type Deletion = {
  id: string
  kind: 'organization' | 'user'
  target_id: string
  requested_at: string
  /** Null until everything was erased. */
  finished_at: string | null
  /** What has to happen before the erasing goes on. */
  waits_for: string | null
  /** Rows of each table, and objects in the store of backups. */
  deleted: Record<string, number>
}

export const organizations = (api: Api) => ({
  /** The organizations that the token can reach: with an API key, the one it was created in. */
  list: (options: CallOptions & PageOptions = {}): List<Organization> => api.list('/api/v1/organizations', options),

  /** Renames it. Only owners may. */
  update: async (id: string, settings: OrganizationSettings, options: CallOptions = {}): Promise<Organization> =>
    api.change('PATCH', api.platform({ organization: id }), settings, options),

  /** What the organization uses, and may use. */
  quotas: async (options: OrganizationOptions = {}): Promise<QuotaUse> =>
    api.get(api.platform(options, 'quotas'), options),

  /** Deletes it for good. Only owners may, with a login token; the organization answers 404 from then on. */
  delete: async (id: string, confirmation: Confirmation, options: CallOptions = {}): Promise<Deletion> =>
    api.change('POST', api.platform({ organization: id }, 'deletion'), confirmation, options),
})
