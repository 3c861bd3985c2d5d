import type { Executor, PageRequest, Transaction } from '../db/database.ts'
import type { DatabaseId, OrgId, UserId } from '../lib/ids.ts'
import { type DatabaseStatus, firstDatabaseStatus } from './database.ts'
import { deadAfterSeconds } from './node-sql.ts'
import type { StorageState } from './storage-rules.ts'

export type DatabaseRow = {
  id: DatabaseId
  name: string
  status: DatabaseStatus
  node: string | null
  host: string | null
  port: number | null
  failure: string | null
  created_at: Date
  /** Only where it is read to be shown. */
  recovery_from?: Date | null
  recovery_to?: Date | null
  is_reachable?: boolean
}

/** What its node measured last; all null before the first time. */
export type DatabaseStorage = {
  storage_used_bytes: number | null
  storage_limit_bytes: number | null
  storage_state: StorageState | null
  storage_message: string | null
  measured_at: Date | null
}

export type ShownDatabase = DatabaseRow & DatabaseStorage

export type NewDatabase = {
  id: DatabaseId
  name: string
  passwordVerifier: string
  node: string | null
  createdBy: UserId
  /** A restored copy has the storage limit of this one. */
  copyOf?: DatabaseId
}

/** Inserts unless the organization already has `databasesMax`, failed ones included. Call it with the organization locked. */
export const insertDatabase = (tx: Transaction, orgId: OrgId, database: NewDatabase, databasesMax: number) =>
  tx<DatabaseRow[]>`
    insert into keyhook.databases (org_id, id, name, status, node, password_verifier, created_by, storage_limit_bytes)
    select ${orgId}, ${database.id}, ${database.name}, ${firstDatabaseStatus}, ${database.node},
      ${database.passwordVerifier}, ${database.createdBy},
      (select storage_limit_bytes from keyhook.databases where org_id = ${orgId} and id = ${database.copyOf ?? null})
    where (select count(*) from keyhook.databases where org_id = ${orgId} and status <> 'deleted') < ${databasesMax}
    returning id, name, status, node, host, port, failure, created_at`.first()

/** `databases`: only these, unless null. */
export const listDatabases = (
  db: Executor,
  orgId: OrgId,
  databases: readonly DatabaseId[] | null,
  { before, limit }: PageRequest,
) => db<ShownDatabase[]>`
  ${shown(db)}
  where d.org_id = ${orgId} and d.status <> 'deleted' and (${before}::text is null or d.id < ${before})
    and (${databases}::text[] is null or d.id = any (${databases}))
  order by d.id desc
  limit ${limit}`

export const findDatabase = (db: Executor, orgId: OrgId, id: DatabaseId) =>
  db<ShownDatabase[]>`${shown(db)} where d.org_id = ${orgId} and d.id = ${id} and d.status <> 'deleted'`.first()

const shown = (db: Executor) => db`
  select d.id, d.name, d.status, d.node, d.host, d.port, d.failure, d.created_at,
    s.storage_used_bytes::float8, s.storage_limit_bytes::float8, s.storage_state, s.storage_message, s.measured_at,
    w.recovery_from, w.recovery_to, ${isReachable(db)} as is_reachable
  from keyhook.databases d
  left join keyhook.database_stats s on s.org_id = d.org_id and s.database_id = d.id
  left join lateral (${recoveryWindow(db)}) w on true`

/** Whether the node of the database `d` is seen, and its server runs there. A node without a host does not run servers itself. */
const isReachable = (db: Executor) => db`
  exists (
    select 1 from keyhook.nodes n
    where n.id = d.node and (
      n.host is null
      or (n.seen_at > clock_timestamp() - make_interval(secs => ${deadAfterSeconds}) and d.id <> all(n.down))
    )
  )`

/** The times that the database `d` can be restored to. They are shown in milliseconds, so the first is rounded up. */
const recoveryWindow = (db: Executor) => db`
  select date_trunc('milliseconds', min(b.stopped_at)) + interval '1 millisecond' as recovery_from,
    max(a.archived_until) as recovery_to
  from keyhook.wal_archives a
  join keyhook.backups b on b.org_id = a.org_id and b.database_id = a.database_id
  where a.org_id = d.org_id and a.database_id = d.id and b.status = 'completed'
    and b.stop_lsn >= a.from_lsn and b.stopped_at < a.archived_until`

export type LockedDatabase = DatabaseRow & {
  password_verifier: string | null
  moving_from: string | null
  /** Null: the setting of its node. */
  storage_limit_bytes: number | null
}

/** Deleted ones too: a step that runs twice has to see the current state of its row. */
export const lockDatabase = (tx: Transaction, orgId: OrgId, id: DatabaseId) =>
  tx<LockedDatabase[]>`
    select id, name, status, node, host, port, failure, created_at, password_verifier, moving_from,
      storage_limit_bytes::float8
    from keyhook.databases
    where org_id = ${orgId} and id = ${id}
    for update`.first()

export const placeDatabase = (tx: Transaction, orgId: OrgId, id: DatabaseId, node: string) => tx`
  update keyhook.databases set node = ${node}
  where org_id = ${orgId} and id = ${id} and status = 'provisioning' and node is null`

/** The node that was to create it cannot be reached: it is free for another one. */
export const unplaceDatabase = (tx: Transaction, orgId: OrgId, id: DatabaseId) => tx`
  update keyhook.databases set node = null
  where org_id = ${orgId} and id = ${id} and status = 'provisioning'`

/** Serializes the placements of one node, which count before they insert. */
export const lockNode = (tx: Transaction, node: string) =>
  tx`select pg_advisory_xact_lock(hashtextextended('keyhook.node.' || ${node}, 0))`

/** The databases that use space on a node: not failed ones, whose files are gone, nor deleted ones. */
export const countDatabasesOfNode = async (tx: Transaction, node: string): Promise<number> => {
  const [row] = await tx<{ count: number }[]>`
    select count(*)::int as count from keyhook.databases where node = ${node} and status not in ('failed', 'deleted')`
  return row?.count ?? 0
}

/** How many organizations have a database there. */
export const organizationsOfNode = async (db: Executor, node: string): Promise<number> => {
  const [row] = await db<{ count: number }[]>`
    select count(distinct org_id)::int as count from keyhook.databases
    where node = ${node} and status not in ('failed', 'deleted')`
  return row?.count ?? 0
}

/** From now on only the instance has the password verifier. */
export const markDatabaseServing = (
  tx: Transaction,
  orgId: OrgId,
  id: DatabaseId,
  status: DatabaseStatus,
  address: { host: string; port: number },
) => tx`
  update keyhook.databases
  set status = ${status}, host = ${address.host}, port = ${address.port}, password_verifier = null
  where org_id = ${orgId} and id = ${id}`

/** An address may change with the settings of a node. A row that is right already is not written. */
export const correctDatabaseAddress = (
  db: Executor,
  id: DatabaseId,
  { host, port }: { host: string; port: number },
) => db`
  update keyhook.databases set host = ${host}, port = ${port}
  where id = ${id} and status = 'available' and (host is distinct from ${host} or port is distinct from ${port})`

export const markDatabaseGivenUp = (
  tx: Transaction,
  orgId: OrgId,
  id: DatabaseId,
  status: DatabaseStatus,
  failure: string,
) => tx`
  update keyhook.databases set status = ${status}, failure = ${failure}, password_verifier = null
  where org_id = ${orgId} and id = ${id}`

export const markDatabaseRemoving = (tx: Transaction, orgId: OrgId, id: DatabaseId, status: DatabaseStatus) => tx`
  update keyhook.databases set status = ${status}, password_verifier = null
  where org_id = ${orgId} and id = ${id}`

export const markDatabaseCleared = (tx: Transaction, orgId: OrgId, id: DatabaseId, status: DatabaseStatus) => tx`
  update keyhook.databases set status = ${status}, deleted_at = clock_timestamp(), host = null, port = null
  where org_id = ${orgId} and id = ${id}`

/** Whether this node may run it. Another one has it, if it moved while this one was away. */
export const mayRunDatabase = (db: Executor, node: string, id: DatabaseId) =>
  db`select 1 from keyhook.databases where node = ${node} and id = ${id} and status = 'available'`.exists()

/** The status of databases whose files were found on a node. */
export const databaseStatuses = async (
  db: Executor,
  ids: readonly DatabaseId[],
): Promise<Map<DatabaseId, DatabaseStatus>> => {
  const rows = await db<{ id: DatabaseId; status: DatabaseStatus }[]>`
    select id, status from keyhook.databases where id = any(${[...ids]}::text[])`
  return new Map(rows.map((row) => [row.id, row.status]))
}

export const existingDatabasesOf = async (tx: Transaction, orgId: OrgId): Promise<DatabaseId[]> => {
  const rows = await tx<{ id: DatabaseId }[]>`
    select id from keyhook.databases where org_id = ${orgId} and status <> 'deleted' order by id`
  return rows.map((row) => row.id)
}

export const availableDatabasesOfNode = async (db: Executor, node: string): Promise<DatabaseId[]> => {
  const rows = await db<{ id: DatabaseId }[]>`
    select id from keyhook.databases where node = ${node} and status = 'available' order by id`
  return rows.map((row) => row.id)
}

/** Two conditions, because each has an index that answers it from one row; as one, all backups of a database would be read. */
export const databasesDueForBackup = (db: Executor, node: string, hours: number | null) => db<
  { org_id: OrgId; id: DatabaseId }[]
>`
  select d.org_id, d.id
  from keyhook.databases d
  where d.node = ${node} and d.status = 'available' and coalesce(d.backup_every_hours, ${hours}::int) is not null
    and not exists (
      select 1 from keyhook.backups b where b.org_id = d.org_id and b.database_id = d.id and b.status = 'running'
    )
    and (
      select max(b.created_at) from keyhook.backups b
      where b.org_id = d.org_id and b.database_id = d.id and b.origin = 'scheduled'
    ) > clock_timestamp() - make_interval(hours => coalesce(d.backup_every_hours, ${hours}::int)) is not true
  order by d.id`

/** False on a node that never had a database, and need not look for any. */
export const nodeWasUsed = (db: Executor, node: string) =>
  db`select 1 from keyhook.databases where node = ${node} limit 1`.exists()

export type ScheduleRow = { backup_every_hours: number | null; backups_kept: number | null }

/** With when the last scheduled backup began. Null for a database that does not exist or is deleted. */
export const findBackupSchedule = (db: Executor, orgId: OrgId, id: DatabaseId) =>
  db<(ScheduleRow & { last_at: Date | null })[]>`
    select d.backup_every_hours, d.backups_kept, (
      select max(b.created_at) from keyhook.backups b
      where b.org_id = d.org_id and b.database_id = d.id and b.origin = 'scheduled'
    ) as last_at
    from keyhook.databases d
    where d.org_id = ${orgId} and d.id = ${id} and d.status not in ('deleting', 'deleted')`.first()

export const setBackupSchedule = (tx: Transaction, orgId: OrgId, id: DatabaseId, schedule: ScheduleRow) =>
  tx`
    update keyhook.databases
    set backup_every_hours = ${schedule.backup_every_hours}, backups_kept = ${schedule.backups_kept}
    where org_id = ${orgId} and id = ${id} and status not in ('deleting', 'deleted')
    returning id`.exists()
