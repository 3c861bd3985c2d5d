import { type Api, pathOf } from '../api.ts'
import type { List, PageOptions } from '../list.ts'
import type { Confirmation, Deletion, Organization, QuotaName, QuotaUse } from '../resources/organizations.ts'
import type { CallOptions } from '../transport.ts'
import type { OperatorCreationOptions } from './options.ts'

export type NewOrganization = { name: string }
/** What is absent stays as it is; null is the limit of the settings again. */
export type QuotaChanges = Partial<Record<QuotaName, number | null>>
export type OpenedOrganization = { token: string; expires_at: string }

const path = '/operator/v1/organizations'

export const organizations = (api: Api) => ({
  create: async (organization: NewOrganization, options: OperatorCreationOptions = {}): Promise<Organization> =>
    api.create(path, organization, options),

  list: (options: CallOptions & PageOptions = {}): List<Organization> => api.list(path, options),

  get: async (id: string, options: CallOptions = {}): Promise<Organization> => api.get(pathOf(path, id), options),

  /** Deletes it for good. Nothing but its id, times and numbers of rows is kept. */
  delete: async (id: string, confirmation: Confirmation, options: CallOptions = {}): Promise<Deletion> =>
    api.change('POST', pathOf(path, id, 'deletion'), confirmation, options),

  /** A token that reads this organization for 15 minutes. Its audit log gets an entry. */
  open: async (id: string, options: CallOptions = {}): Promise<OpenedOrganization> =>
    api.change('POST', pathOf(path, id, 'open'), undefined, options),

  /** What the organization uses, and may use. */
  quotas: async (id: string, options: CallOptions = {}): Promise<QuotaUse> =>
    api.get(pathOf(path, id, 'quotas'), options),

  /** In place of the limits of the settings. What exists stays, also above a lower quota. */
  setQuotas: async (id: string, changes: QuotaChanges, options: CallOptions = {}): Promise<QuotaUse> =>
    api.change('PATCH', pathOf(path, id, 'quotas'), changes, options),
})
