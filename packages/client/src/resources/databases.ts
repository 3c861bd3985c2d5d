import type { Api, CreationOptions, ListOptions, OrganizationOptions, SecretCreation } from '../api.ts'
import type { List } from '../list.ts'
import type { CallOptions } from '../transport.ts'

export type NewDatabase = { name: string }

export type DatabaseStorage = {
  used_bytes: number
  limit_bytes: number
  state: 'normal' | 'read_only' | 'stopped'
  message: string | null
  measured_at: string
}

/** `name` is that of the new database, `to` a time such as `2026-01-31T12:00:00Z`. */
export type NewRestoreToTime = { name: string; to: string }

export type Database = {
  id: string
  name: string
  /** `unreachable`: its node is silent or its server does not run. It becomes `available` again by itself. */
  status: 'provisioning' | 'available' | 'unreachable' | 'failed' | 'deleting'
  host: string | null
  port: number | null
  user: string
  database: string
  connection_string: string | null
  /** Null until it was measured. */
  storage: DatabaseStorage | null
  failure: string | null
  recovery_window: { from: string; to: string } | null
  /** Why `recovery_window` does not move on, and what to do; null while it does. */
  recovery_problem: string | null
  created_at: string
}

/** Null while the database does not run, and for its first seconds. */
export type DatabaseStats = {
  size_bytes: number | null
  connections: number | null
  connections_max: number | null
  at: string | null
}

/** The largest size and the most connections of each hour in which it was measured, oldest first. */
export type DatabaseUsage = { hours: { at: string; size_bytes: number; connections: number }[] }

/** `password` is shown here and never again. */
export type CreatedDatabase = Database & { password: string }
export type RepeatedDatabase = Database & { password?: string }

export type Restore = {
  id: string
  backup_id: string
  database_id: string
  to: string | null
  status: 'running' | 'completed' | 'failed'
  bytes_done: number
  bytes_total: number | null
  failure: string | null
  created_at: string
  finished_at: string | null
}

export type CreatedRestore = { restore: Restore; database: CreatedDatabase }

export const databases = (api: Api) => ({
  /** Never repeated by itself, because its answer shows the password. */
  create: (async (database: NewDatabase, options: CreationOptions = {}) =>
    api.createSecret(api.platform(options, 'databases'), database, options)) as SecretCreation<
    [database: NewDatabase],
    OrganizationOptions,
    CreatedDatabase,
    RepeatedDatabase
  >,

  list: (options: ListOptions = {}): List<Database> => api.list(api.platform(options, 'databases'), options),

  get: async (id: string, options: OrganizationOptions = {}): Promise<Database> =>
    api.get(api.platform(options, 'databases', id), options),

  /** Its size and its connections, a few seconds old. */
  stats: async (id: string, options: OrganizationOptions = {}): Promise<DatabaseStats> =>
    api.get(api.platform(options, 'databases', id, 'stats'), options),

  /** The last seven days. */
  usage: async (id: string, options: OrganizationOptions = {}): Promise<DatabaseUsage> =>
    api.get(api.platform(options, 'databases', id, 'usage'), options),

  /** The certificate authority that clients of databases trust (PEM), for `sslrootcert` or `ssl.ca`. */
  certificateAuthority: async (options: CallOptions = {}): Promise<string> =>
    (await api.transport.send({ method: 'GET', path: '/database-ca.pem', isRepeatable: true }, options)).text,
  /**
   * Makes a new database with exactly what this one had at that time, which is in its `recovery_window`. Never repeated by
   * itself, because its answer shows the password.
   */
  restore: (async (id: string, restore: NewRestoreToTime, options: CreationOptions = {}) =>
    api.createSecret(api.platform(options, 'databases', id, 'restore'), restore, options)) as SecretCreation<
    [id: string, restore: NewRestoreToTime],
    OrganizationOptions,
    CreatedRestore,
    { restore: Restore; database: RepeatedDatabase }
  >,

  /** Answers `deleting`; when its files are gone, `get` answers `not_found`. */
  delete: async (id: string, options: OrganizationOptions = {}): Promise<Database> =>
    api.remove(api.platform(options, 'databases', id), options),
})
