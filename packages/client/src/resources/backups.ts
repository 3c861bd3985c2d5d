import type { Api, CreationOptions, ListOptions, OrganizationOptions } from '../api.ts'
import type { List } from '../list.ts'

export type Backup = {
  id: string
  database_id: string
  status: 'running' | 'completed' | 'failed' | 'deleting'
  origin: 'requested' | 'scheduled'
  bytes_done: number
  bytes_total: number | null
  size_bytes: number | null
  sha256: string | null
  failure: string | null
  created_at: string
  finished_at: string | null
}

/** Null: the operator's setting. */
export type BackupSchedule = { every_hours: number | null; keep: number | null }

/** With what counts where the operator's setting does. `next_at` is null without a schedule, and before the first backup. */
export type BackupScheduleInForce = BackupSchedule & {
  in_force: { every_hours: number | null; keep: number; next_at: string | null }
}

export const backups = (api: Api) => ({
  create: async (databaseId: string, options: CreationOptions = {}): Promise<Backup> =>
    api.create(api.platform(options, 'databases', databaseId, 'backups'), undefined, options),

  /** With `databaseId`, those of one database. */
  list: ({ databaseId, ...options }: ListOptions & { databaseId?: string } = {}): List<Backup> =>
    api.list(api.platform(options, 'backups'), options, { database_id: databaseId }),

  get: async (id: string, options: OrganizationOptions = {}): Promise<Backup> =>
    api.get(api.platform(options, 'backups', id), options),

  /** Ends a backup that is running; it is `failed` then. */
  cancel: async (id: string, options: OrganizationOptions = {}): Promise<Backup> =>
    api.change('POST', api.platform(options, 'backups', id, 'cancel'), undefined, options),

  delete: async (id: string, options: OrganizationOptions = {}): Promise<Backup> =>
    api.remove(api.platform(options, 'backups', id), options),

  schedule: async (databaseId: string, options: OrganizationOptions = {}): Promise<BackupScheduleInForce> =>
    api.get(api.platform(options, 'databases', databaseId, 'backup-schedule'), options),

  setSchedule: async (
    databaseId: string,
    schedule: BackupSchedule,
    options: OrganizationOptions = {},
  ): Promise<BackupSchedule> =>
    api.change('PUT', api.platform(options, 'databases', databaseId, 'backup-schedule'), schedule, options),
})
