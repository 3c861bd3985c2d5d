import type { Executor, Transaction } from '../../db/database.ts'
import type { BackupId, DatabaseId, OrgId } from '../../kernel/ids.ts'

/** Positions in the WAL as PostgreSQL writes them: `0/1B81000`. */
type Lsn = string

export type ArchivedDatabase = { org_id: OrgId; id: DatabaseId; until_lsn: Lsn | null; archived_until: Date | null }

/** The databases of a node whose WAL is to be archived, and how far it was. */
export const databasesToArchive = (db: Executor, node: string) => db<ArchivedDatabase[]>`
  select d.org_id, d.id, w.until_lsn::text as until_lsn, w.archived_until
  from keyhook.databases d
  left join keyhook.wal_archives w on w.org_id = d.org_id and w.database_id = d.id
  where d.node = ${node} and d.status = 'available'
  order by d.id`

/** `from`: the archive starts here, because there was none or something is missing before. Does not wait for the disk. */
export const recordArchivedWal = async (
  tx: Transaction,
  orgId: OrgId,
  id: DatabaseId,
  wal: { from: Lsn | null; until: Lsn; at: Date },
): Promise<void> => {
  await tx`select set_config('synchronous_commit', 'off', true)`
  await tx`
    insert into keyhook.wal_archives as w (org_id, database_id, from_lsn, until_lsn, archived_until)
    select d.org_id, d.id, coalesce(${wal.from}::pg_lsn, ${wal.until}::pg_lsn), ${wal.until}::pg_lsn, ${wal.at}
    from keyhook.databases d where d.org_id = ${orgId} and d.id = ${id} and d.status = 'available'
    on conflict (org_id, database_id) do update
      set from_lsn = coalesce(${wal.from}::pg_lsn, w.from_lsn), until_lsn = excluded.until_lsn,
        archived_until = excluded.archived_until`
}

/** Keeps the WAL from being pruned until the transaction ends. */
export const holdWalArchive = async (tx: Transaction, orgId: OrgId, id: DatabaseId): Promise<void> => {
  await tx`select 1 from keyhook.wal_archives where org_id = ${orgId} and database_id = ${id} for share`
}

/** The newest backup that ended before `to` and that archived WAL follows. */
export const findBaseBackup = async (
  tx: Transaction,
  orgId: OrgId,
  id: DatabaseId,
  to: Date,
): Promise<{ id: BackupId } | null> => {
  const [row] = await tx<{ id: BackupId }[]>`
    select b.id
    from keyhook.wal_archives w
    join keyhook.backups b on b.org_id = w.org_id and b.database_id = w.database_id
    where w.org_id = ${orgId} and w.database_id = ${id} and b.status = 'completed'
      and b.stop_lsn >= w.from_lsn and b.stopped_at <= ${to} and ${to} <= w.archived_until
    order by b.stopped_at desc
    limit 1`
  return row ?? null
}

/**
 * The WAL that a restore of this backup to `to` needs: from the end of the backup to the end of the next one, or to the end of
 * the archive. Null if it is not there any more.
 */
export const walToReplay = async (
  db: Executor,
  orgId: OrgId,
  backupId: BackupId,
  to: Date,
): Promise<{ from: Lsn; until: Lsn } | null> => {
  const [row] = await db<{ from: Lsn; until: Lsn }[]>`
    select b.stop_lsn::text as from, least(w.until_lsn, (
      select min(n.stop_lsn) from keyhook.backups n
      where n.org_id = b.org_id and n.database_id = b.database_id and n.stop_lsn > b.stop_lsn and n.stopped_at > ${to}
    ))::text as until
    from keyhook.backups b
    join keyhook.wal_archives w on w.org_id = b.org_id and w.database_id = b.database_id
    where b.org_id = ${orgId} and b.id = ${backupId} and b.stop_lsn >= w.from_lsn and ${to} <= w.archived_until`
  return row ?? null
}

/** No backup exists or is being taken that archived WAL follows, and none was tried in the last ten minutes. */
export const needsBaseBackup = async (db: Executor, orgId: OrgId, id: DatabaseId): Promise<boolean> => {
  const rows = await db`
    select 1 from keyhook.wal_archives w
    where w.org_id = ${orgId} and w.database_id = ${id} and not exists (
      select 1 from keyhook.backups b
      where b.org_id = w.org_id and b.database_id = w.database_id and (
        b.status = 'running' or (b.status = 'completed' and b.stop_lsn >= w.from_lsn)
        or (b.status = 'failed' and b.created_at > clock_timestamp() - interval '10 minutes')
      )
    )`
  return rows.length > 0
}

/**
 * Moves the start of the archive to the oldest scheduled backup that is kept, or that a restore reads, and returns it. Null if
 * nothing can be removed. The caller removes what is before it.
 */
export const pruneWalArchive = async (tx: Transaction, orgId: OrgId, id: DatabaseId): Promise<Lsn | null> => {
  // Alone, so that the statement below sees restores that were created while it waited.
  await tx`select 1 from keyhook.wal_archives where org_id = ${orgId} and database_id = ${id} for update`
  const [row] = await tx<{ from: Lsn }[]>`
    update keyhook.wal_archives w set from_lsn = kept.lsn
    from (
      select min(b.start_lsn) as lsn
      from keyhook.backups b join keyhook.wal_archives a on a.org_id = b.org_id and a.database_id = b.database_id
      where b.org_id = ${orgId} and b.database_id = ${id} and b.stop_lsn >= a.from_lsn and b.status = 'completed' and (
        b.origin = 'scheduled' or exists (
          select 1 from keyhook.restores r where r.org_id = b.org_id and r.backup_id = b.id and r.status = 'running'
        )
      )
    ) kept
    where w.org_id = ${orgId} and w.database_id = ${id} and kept.lsn > w.from_lsn
    returning w.from_lsn::text as from`
  return row?.from ?? null
}

/** Archives of deleted databases, which are removed. */
export const archivesOfDeleted = (db: Executor, node: string) => db<{ org_id: OrgId; id: DatabaseId }[]>`
  select d.org_id, d.id from keyhook.wal_archives w
  join keyhook.databases d on d.org_id = w.org_id and d.id = w.database_id
  where d.node = ${node} and d.status = 'deleted'`

export const deleteWalArchive = async (db: Executor, orgId: OrgId, id: DatabaseId): Promise<void> => {
  await db`delete from keyhook.wal_archives where org_id = ${orgId} and database_id = ${id}`
}
