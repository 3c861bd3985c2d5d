import type { Executor, PageRequest, Transaction } from '../db/database.ts'
import type { BackupId, DatabaseId, OrgId, RestoreId, UserId } from '../lib/ids.ts'
import {
  type BackupOrigin,
  type BackupStatus,
  firstBackupStatus,
  firstRestoreStatus,
  type RestoreStatus,
} from './backup.ts'

export type BackupRow = {
  id: BackupId
  database_id: DatabaseId
  node: string
  origin: BackupOrigin
  status: BackupStatus
  bytes_done: number
  bytes_total: number | null
  size_bytes: number | null
  sha256: string | null
  key_id: string | null
  failure: string | null
  created_at: Date
  finished_at: Date | null
}

export const oneBackupAtATime = 'backups_one_at_a_time'

const backupColumns = (db: Executor) => db`
  id, database_id, node, origin, status, bytes_done::float8 as bytes_done, bytes_total::float8 as bytes_total,
  size_bytes::float8 as size_bytes, sha256, key_id, failure, created_at, finished_at`

export const insertBackup = async (
  tx: Transaction,
  orgId: OrgId,
  backup: { id: BackupId; databaseId: DatabaseId; node: string; origin: BackupOrigin; createdBy: UserId | null },
): Promise<BackupRow> => {
  const [row] = await tx<[BackupRow]>`
    insert into keyhook.backups (org_id, id, database_id, node, origin, status, created_by)
    values (${orgId}, ${backup.id}, ${backup.databaseId}, ${backup.node}, ${backup.origin}, ${firstBackupStatus},
      ${backup.createdBy})
    returning ${backupColumns(tx)}`
  return row
}

export const listBackups = (
  db: Executor,
  orgId: OrgId,
  filter: { databaseId: DatabaseId | null; databases: readonly DatabaseId[] | null },
  { before, limit }: PageRequest,
) => db<BackupRow[]>`
  select ${backupColumns(db)}
  from keyhook.backups
  where org_id = ${orgId} and status <> 'deleted' and origin <> 'base' and (${before}::text is null or id < ${before})
    and (${filter.databaseId}::text is null or database_id = ${filter.databaseId})
    and (${filter.databases}::text[] is null or database_id = any (${filter.databases}))
  order by id desc
  limit ${limit}`

export const findBackup = (db: Executor, orgId: OrgId, id: BackupId) =>
  db<BackupRow[]>`
    select ${backupColumns(db)} from keyhook.backups where org_id = ${orgId} and id = ${id} and status <> 'deleted'`.first()

export const lockBackup = (tx: Transaction, orgId: OrgId, id: BackupId) =>
  tx<BackupRow[]>`
    select ${backupColumns(tx)} from keyhook.backups where org_id = ${orgId} and id = ${id} for update`.first()

export const recordBackupProgress = (
  db: Executor,
  orgId: OrgId,
  id: BackupId,
  progress: { bytesDone: number; bytesTotal: number },
) => db`
  update keyhook.backups set bytes_done = ${progress.bytesDone}, bytes_total = ${progress.bytesTotal}
  where org_id = ${orgId} and id = ${id} and status = 'running'`

export const markBackupCompleted = (
  tx: Transaction,
  orgId: OrgId,
  id: BackupId,
  status: BackupStatus,
  archive: {
    bytes: number
    sha256: string | null
    keyId: string | null
    contentBytes: number
    wal: { start_lsn: string; stop_lsn: string; stopped_at: string | null }
  },
) => tx`
  update keyhook.backups
  set status = ${status}, size_bytes = ${archive.bytes}, sha256 = ${archive.sha256},
    key_id = ${archive.keyId},
    bytes_done = ${archive.contentBytes}, bytes_total = ${archive.contentBytes}, finished_at = clock_timestamp(),
    start_lsn = ${archive.wal.start_lsn}, stop_lsn = ${archive.wal.stop_lsn}, stopped_at = ${archive.wal.stopped_at}
  where org_id = ${orgId} and id = ${id}`

export const markBackupGivenUp = (
  tx: Transaction,
  orgId: OrgId,
  id: BackupId,
  status: BackupStatus,
  failure: string,
) => tx`
  update keyhook.backups set status = ${status}, failure = ${failure}, finished_at = clock_timestamp()
  where org_id = ${orgId} and id = ${id}`

/** For transitions that change nothing but the status. */
export const setBackupStatus = (tx: Transaction, orgId: OrgId, id: BackupId, status: BackupStatus) => tx`
  update keyhook.backups set status = ${status} where org_id = ${orgId} and id = ${id}`

export const runningBackupsOf = async (tx: Transaction, orgId: OrgId, databaseId: DatabaseId): Promise<BackupId[]> => {
  const rows = await tx<{ id: BackupId }[]>`
    select id from keyhook.backups where org_id = ${orgId} and database_id = ${databaseId} and status = 'running'`
  return rows.map((row) => row.id)
}

/** What these backups are, so that a node knows which archives to keep. Unknown ids are not in it. */
export const archivedBackups = async (
  db: Executor,
  ids: readonly BackupId[],
): Promise<Map<BackupId, { status: BackupStatus; databaseId: DatabaseId }>> => {
  const rows = await db<{ id: BackupId; status: BackupStatus; database_id: DatabaseId }[]>`
    select id, status, database_id from keyhook.backups where id = any(${[...ids]}::text[])`
  return new Map(rows.map((row) => [row.id, { status: row.status, databaseId: row.database_id }]))
}

/** Scheduled backups and bases beyond the newest `keep` of their database, except those that a restore reads. A deleted one keeps no base. */
export const expiredBackups = (db: Executor, node: string, keep: number) => db<{ org_id: OrgId; id: BackupId }[]>`
  select ranked.org_id, ranked.id from (
    select b.org_id, b.id, b.database_id, b.origin,
      row_number() over (partition by b.origin, b.org_id, b.database_id order by b.id desc) as n
    from keyhook.backups b
    where b.node = ${node} and b.origin in ('scheduled', 'base') and b.status = 'completed'
  ) ranked
  join keyhook.databases d on d.org_id = ranked.org_id and d.id = ranked.database_id
  where case ranked.origin
      when 'base' then n > ${keep}::int or d.status = 'deleted'
      else n > coalesce(d.backups_kept, ${keep}::int)
    end
    and not exists (
      select 1 from keyhook.restores r
      where r.org_id = ranked.org_id and r.backup_id = ranked.id and r.status = 'running'
    )`

/** The master keys that archives are encrypted under. */
export const archiveKeyIds = async (db: Executor): Promise<string[]> => {
  const rows = await db<{ id: string }[]>`
    select distinct key_id as id from keyhook.backups where key_id is not null and status <> 'deleted' order by id`
  return rows.map((row) => row.id)
}

export const countArchivesUnder = async (db: Executor, keyIds: readonly string[]): Promise<number> => {
  const [row] = await db<[{ count: number }]>`
    select count(*)::int as count from keyhook.backups where key_id = any(${[...keyIds]}::text[]) and status <> 'deleted'`
  return row.count
}

export type RestoreRow = {
  id: RestoreId
  backup_id: BackupId
  database_id: DatabaseId
  recover_to: Date | null
  status: RestoreStatus
  bytes_done: number
  bytes_total: number | null
  failure: string | null
  created_at: Date
  finished_at: Date | null
}

const restoreColumns = (db: Executor) => db`
  id, backup_id, database_id, recover_to, status, bytes_done::float8 as bytes_done, bytes_total::float8 as bytes_total, failure,
  created_at, finished_at`

export const insertRestore = async (
  tx: Transaction,
  orgId: OrgId,
  restore: {
    id: RestoreId
    backupId: BackupId
    databaseId: DatabaseId
    to: Date | null
    bytesTotal: number | null
    createdBy: UserId
  },
): Promise<RestoreRow> => {
  const [row] = await tx<[RestoreRow]>`
    insert into keyhook.restores (org_id, id, backup_id, database_id, recover_to, status, bytes_total, created_by)
    values (${orgId}, ${restore.id}, ${restore.backupId}, ${restore.databaseId}, ${restore.to}, ${firstRestoreStatus},
      ${restore.bytesTotal}, ${restore.createdBy})
    returning ${restoreColumns(tx)}`
  return row
}

export const listRestores = (
  db: Executor,
  orgId: OrgId,
  databases: readonly DatabaseId[] | null,
  { before, limit }: PageRequest,
) => db<RestoreRow[]>`
  select ${restoreColumns(db)} from keyhook.restores
  where org_id = ${orgId} and (${before}::text is null or id < ${before}) and ${isOfOneOf(db, databases)}
  order by id desc
  limit ${limit}`

export const findRestore = (db: Executor, orgId: OrgId, id: RestoreId) =>
  db<RestoreRow[]>`
    select ${restoreColumns(db)} from keyhook.restores where org_id = ${orgId} and id = ${id}`.first()

export const isRestoreOf = (db: Executor, orgId: OrgId, id: RestoreId, databases: readonly DatabaseId[]) =>
  db`select from keyhook.restores where org_id = ${orgId} and id = ${id} and ${isOfOneOf(db, databases)}`.exists()

/** Into one of these databases, or from one of them; every restore if null. */
const isOfOneOf = (db: Executor, databases: readonly DatabaseId[] | null) => db`(
  ${databases}::text[] is null or database_id = any (${databases}) or exists (
    select from keyhook.backups b
    where b.org_id = restores.org_id and b.id = restores.backup_id and b.database_id = any (${databases})
  ))`

export const lockRestore = (tx: Transaction, orgId: OrgId, id: RestoreId) =>
  tx<RestoreRow[]>`
    select ${restoreColumns(tx)} from keyhook.restores where org_id = ${orgId} and id = ${id} for update`.first()

/** The restore that a database comes from, while it runs. */
export const runningRestoreInto = async (
  tx: Transaction,
  orgId: OrgId,
  databaseId: DatabaseId,
): Promise<RestoreId | null> => {
  const [row] = await tx<{ id: RestoreId }[]>`
    select id from keyhook.restores where org_id = ${orgId} and database_id = ${databaseId} and status = 'running'`
  return row?.id ?? null
}

export const restoresReading = async (tx: Transaction, orgId: OrgId, backupId: BackupId): Promise<number> => {
  const [row] = await tx<{ count: number }[]>`
    select count(*)::int as count from keyhook.restores
    where org_id = ${orgId} and backup_id = ${backupId} and status = 'running'`
  return row?.count ?? 0
}

export const recordRestoreProgress = (
  db: Executor,
  orgId: OrgId,
  id: RestoreId,
  progress: { bytesDone: number; bytesTotal: number },
) => db`
  update keyhook.restores set bytes_done = ${progress.bytesDone}, bytes_total = ${progress.bytesTotal}
  where org_id = ${orgId} and id = ${id} and status = 'running'`

export const markRestoreCompleted = (tx: Transaction, orgId: OrgId, id: RestoreId, status: RestoreStatus) => tx`
  update keyhook.restores
  set status = ${status}, bytes_done = coalesce(bytes_total, bytes_done), finished_at = clock_timestamp()
  where org_id = ${orgId} and id = ${id}`

export const markRestoreGivenUp = (
  tx: Transaction,
  orgId: OrgId,
  id: RestoreId,
  status: RestoreStatus,
  failure: string,
) => tx`
  update keyhook.restores set status = ${status}, failure = ${failure}, finished_at = clock_timestamp()
  where org_id = ${orgId} and id = ${id}`
