import type { WalRange } from '../archives/wal-archive.ts'
import type { Executor, Transaction } from '../db/database.ts'
import type { BackupId, DatabaseId, OrgId } from '../lib/ids.ts'

/** Of the WAL, as initdb chooses it. */
const segmentBytes = 16 * 1024 * 1024

/** Positions in the WAL as PostgreSQL writes them: `0/1B81000`. */
type Lsn = string

export type ArchivedDatabase = {
  org_id: OrgId
  id: DatabaseId
  until_lsn: Lsn | null
  archived_until: Date | null
  is_encrypted: boolean
}

/** The databases of a node whose WAL is to be archived, and how far it was. */
export const databasesToArchive = (db: Executor, node: string) => db<ArchivedDatabase[]>`
  select d.org_id, d.id, w.until_lsn::text as until_lsn, w.archived_until, w.encrypted_from is not null as is_encrypted
  from keyhook.databases d
  left join keyhook.wal_archives w on w.org_id = d.org_id and w.database_id = d.id
  where d.node = ${node} and d.status = 'available'
  order by d.id`

/** `from`: the archive starts here, because there was none or something is missing before. Does not wait for the disk. */
export const recordArchivedWal = async (
  tx: Transaction,
  orgId: OrgId,
  id: DatabaseId,
  wal: { from: Lsn | null; until: Lsn; committed: Lsn; at: Date; bytes: number; isEncrypted: boolean; node: string },
): Promise<void> => {
  await tx`select set_config('synchronous_commit', 'off', true)`
  await tx`
    insert into keyhook.wal_archives as w
      (org_id, database_id, from_lsn, until_lsn, committed_lsn, encrypted_from, archived_until, stored_bytes)
    select d.org_id, d.id, coalesce(${wal.from}::pg_lsn, ${wal.until}::pg_lsn), ${wal.until}::pg_lsn,
      -- At the start of a segment PostgreSQL gives the position after its header.
      least(${wal.committed}::pg_lsn, ${wal.until}::pg_lsn),
      case when ${wal.isEncrypted} then coalesce(${wal.from}::pg_lsn, ${wal.until}::pg_lsn) end, ${wal.at}, ${wal.bytes}
    -- A late record of a node that the database has left, or an earlier one of the same node, changes nothing.
    from keyhook.databases d
    where d.org_id = ${orgId} and d.id = ${id} and d.node = ${wal.node} and d.status in ('available', 'provisioning')
    on conflict (org_id, database_id) do update
      set from_lsn = coalesce(${wal.from}::pg_lsn, w.from_lsn), until_lsn = greatest(w.until_lsn, excluded.until_lsn),
        committed_lsn = greatest(w.committed_lsn, excluded.committed_lsn),
        encrypted_from = coalesce(w.encrypted_from,
          case when ${wal.isEncrypted} then coalesce(${wal.from}::pg_lsn, w.until_lsn) end),
        archived_until = greatest(w.archived_until, excluded.archived_until), stored_bytes = w.stored_bytes + excluded.stored_bytes`
}

/** Keeps the WAL from being pruned until the transaction ends. */
export const holdWalArchive = (tx: Transaction, orgId: OrgId, id: DatabaseId) =>
  tx`select 1 from keyhook.wal_archives where org_id = ${orgId} and database_id = ${id} for share`

/** The newest backup that ended before `to` and that archived WAL follows. */
export const findBaseBackup = (tx: Transaction, orgId: OrgId, id: DatabaseId, to: Date) =>
  tx<{ id: BackupId }[]>`
    select b.id
    from keyhook.wal_archives w
    join keyhook.backups b on b.org_id = w.org_id and b.database_id = w.database_id
    where w.org_id = ${orgId} and w.database_id = ${id} and b.status = 'completed'
      and b.stop_lsn >= w.from_lsn and b.stopped_at <= ${to} and ${to} <= w.archived_until
    order by b.stopped_at desc
    limit 1`.first()

/** From the end of the backup to the end of the next one, or of the archive. Null if it is not there any more. */
export const walToReplay = (db: Executor, orgId: OrgId, backupId: BackupId, to: Date) =>
  db<WalRange[]>`
    select b.stop_lsn::text as from, least(w.until_lsn, next.stop_lsn)::text as until,
      least(w.committed_lsn, next.stop_lsn)::text as committed, w.encrypted_from::text as "encryptedFrom"
    from keyhook.backups b
    join keyhook.wal_archives w on w.org_id = b.org_id and w.database_id = b.database_id
    cross join lateral (
      select min(n.stop_lsn) as stop_lsn from keyhook.backups n
      where n.org_id = b.org_id and n.database_id = b.database_id and n.stop_lsn > b.stop_lsn and n.stopped_at > ${to}
    ) next
    where b.org_id = ${orgId} and b.id = ${backupId} and b.stop_lsn >= w.from_lsn and ${to} <= w.archived_until`.first()

/** For no base, an old one with commits since, or too much WAL. Not while one is being taken, nor for ten minutes after one failed. */
export const needsBase = (
  db: Executor,
  orgId: OrgId,
  id: DatabaseId,
  { hours, bytesMax }: { hours: number; bytesMax: number },
) =>
  db`
    select 1
    from keyhook.wal_archives w
    left join lateral (
      select b.stop_lsn, b.created_at from keyhook.backups b
      where b.org_id = w.org_id and b.database_id = w.database_id and b.origin = 'base' and b.status = 'completed'
        and b.stop_lsn >= w.from_lsn
      order by b.id desc
      limit 1
    ) last on true
    where w.org_id = ${orgId} and w.database_id = ${id}
      and (
        last.stop_lsn is null or w.stored_bytes > ${bytesMax}
        -- A base ends its segment. If that is still the last one, nothing was committed since.
        or (last.created_at < clock_timestamp() - make_interval(hours => ${hours}) and w.until_lsn - last.stop_lsn > ${segmentBytes})
      )
      and not exists (
        select 1 from keyhook.backups b
        where b.org_id = w.org_id and b.database_id = w.database_id and b.origin = 'base' and (
          b.status = 'running' or (b.status = 'failed' and b.created_at > clock_timestamp() - interval '10 minutes')
        )
      )`.exists()

/** Counts again from here, because a base was begun. What was stored is counted with the base before, and removed with it. */
export const resetStoredBytes = (db: Executor, orgId: OrgId, id: DatabaseId) => db`
  with stored as (
    select stored_bytes from keyhook.wal_archives where org_id = ${orgId} and database_id = ${id} for update
  ), counted as (
    update keyhook.backups b set wal_bytes = b.wal_bytes + stored.stored_bytes
    from stored
    where b.org_id = ${orgId} and b.id = (
      select max(last.id) from keyhook.backups last
      where last.org_id = ${orgId} and last.database_id = ${id} and last.origin = 'base' and last.status = 'completed'
    )
  )
  update keyhook.wal_archives w set stored_bytes = w.stored_bytes - stored.stored_bytes
  from stored
  where w.org_id = ${orgId} and w.database_id = ${id}`

/** What the backups and WAL of the organization take in the store. */
export const archivedBytes = async (db: Executor, orgId: OrgId): Promise<number> => {
  const [row] = await db<[{ bytes: number }]>`
    select (
      (select coalesce(sum(coalesce(size_bytes, 0) + wal_bytes), 0) from keyhook.backups
        where org_id = ${orgId} and status <> 'deleted')
      + (select coalesce(sum(stored_bytes), 0) from keyhook.wal_archives where org_id = ${orgId})
    )::float8 as bytes`
  return row.bytes
}

/** How far the WAL is stored; null: not at all. */
export const findWalArchive = (db: Executor, orgId: OrgId, id: DatabaseId) =>
  db<{ until_lsn: Lsn; is_encrypted: boolean }[]>`
    select until_lsn::text as until_lsn, encrypted_from is not null as is_encrypted from keyhook.wal_archives
    where org_id = ${orgId} and database_id = ${id}`.first()

/** Moves the start to the oldest base that is kept or read by a restore, and returns it; null: nothing to remove. The caller removes files. */
export const pruneWalArchive = async (tx: Transaction, orgId: OrgId, id: DatabaseId): Promise<Lsn | null> => {
  // Alone, so that the statement below sees restores that were created while it waited.
  await tx`select 1 from keyhook.wal_archives where org_id = ${orgId} and database_id = ${id} for update`
  const [row] = await tx<{ from: Lsn }[]>`
    update keyhook.wal_archives w set from_lsn = kept.lsn
    from (
      select min(b.start_lsn) as lsn
      from keyhook.backups b join keyhook.wal_archives a on a.org_id = b.org_id and a.database_id = b.database_id
      where b.org_id = ${orgId} and b.database_id = ${id} and b.stop_lsn >= a.from_lsn and b.status = 'completed' and (
        b.origin = 'base' or exists (
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

export const deleteWalArchive = (db: Executor, orgId: OrgId, id: DatabaseId) =>
  db`delete from keyhook.wal_archives where org_id = ${orgId} and database_id = ${id}`
