import type { Executor, Transaction } from '../../db/database.ts'
import { firstRestoreStatus, type RestoreStatus } from '../../domain/restore.ts'
import type { BackupId, DatabaseId, OrgId, RestoreId, UserId } from '../../kernel/ids.ts'
import type { PageRequest } from '../page.ts'

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

const columns = (db: Executor) => db`
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
    returning ${columns(tx)}`
  return row
}

export const listRestores = (db: Executor, orgId: OrgId, { before, limit }: PageRequest) => db<RestoreRow[]>`
  select ${columns(db)} from keyhook.restores
  where org_id = ${orgId} and (${before}::text is null or id < ${before})
  order by id desc
  limit ${limit}`

export const findRestore = async (db: Executor, orgId: OrgId, id: RestoreId): Promise<RestoreRow | null> => {
  const [row] = await db<RestoreRow[]>`
    select ${columns(db)} from keyhook.restores where org_id = ${orgId} and id = ${id}`
  return row ?? null
}

export const lockRestore = async (tx: Transaction, orgId: OrgId, id: RestoreId): Promise<RestoreRow | null> => {
  const [row] = await tx<RestoreRow[]>`
    select ${columns(tx)} from keyhook.restores where org_id = ${orgId} and id = ${id} for update`
  return row ?? null
}

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

export const recordRestoreProgress = async (
  db: Executor,
  orgId: OrgId,
  id: RestoreId,
  progress: { bytesDone: number; bytesTotal: number },
): Promise<void> => {
  await db`
    update keyhook.restores set bytes_done = ${progress.bytesDone}, bytes_total = ${progress.bytesTotal}
    where org_id = ${orgId} and id = ${id} and status = 'running'`
}

export const markRestoreCompleted = async (
  tx: Transaction,
  orgId: OrgId,
  id: RestoreId,
  status: RestoreStatus,
): Promise<void> => {
  await tx`
    update keyhook.restores
    set status = ${status}, bytes_done = coalesce(bytes_total, bytes_done), finished_at = clock_timestamp()
    where org_id = ${orgId} and id = ${id}`
}

export const markRestoreGivenUp = async (
  tx: Transaction,
  orgId: OrgId,
  id: RestoreId,
  status: RestoreStatus,
  failure: string,
): Promise<void> => {
  await tx`
    update keyhook.restores set status = ${status}, failure = ${failure}, finished_at = clock_timestamp()
    where org_id = ${orgId} and id = ${id}`
}
