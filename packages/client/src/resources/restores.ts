import type { Api, CreationOptions, ListOptions, OrganizationOptions, SecretCreation } from '../api.ts'
import type { List } from '../list.ts'
import type { CreatedRestore, RepeatedDatabase, Restore } from './databases.ts'

/** `name` is that of the new database. */
export type NewRestore = { name: string }

export const restores = (api: Api) => ({
  /** Restores a backup into a new database. Never repeated by itself, because its answer shows the password. */
  create: (async (backupId: string, restore: NewRestore, options: CreationOptions = {}) =>
    api.createSecret(api.platform(options, 'backups', backupId, 'restore'), restore, options)) as SecretCreation<
    [backupId: string, restore: NewRestore],
    OrganizationOptions,
    CreatedRestore,
    { restore: Restore; database: RepeatedDatabase }
  >,

  list: (options: ListOptions = {}): List<Restore> => api.list(api.platform(options, 'restores'), options),

  get: async (id: string, options: OrganizationOptions = {}): Promise<Restore> =>
    api.get(api.platform(options, 'restores', id), options),
})
