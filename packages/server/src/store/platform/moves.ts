import type { Executor, Transaction } from '../../db/database.ts'
import type { DatabaseStatus } from '../../domain/database.ts'
import type { BackupId, DatabaseId, OrgId } from '../../kernel/ids.ts'

/*
 * A database that moves from one node to another. `moving_from` names the node that it leaves, from the request to the moment
 * when it is served again. `node` is always the one node that may run it.
 */

/** Requests that the other databases that run on this node leave it, and returns those that were not leaving already. */
export const requestMoves = (tx: Transaction, node: string, except: readonly string[]) => tx<
  { org_id: OrgId; id: DatabaseId }[]
>`
  update keyhook.databases set moving_from = node
  where node = ${node} and status = 'available' and moving_from is null and id <> all(${[...except]}::text[])
  returning org_id, id`

/** Clients cannot reach it from now on, until it is served again. */
export const markDatabaseMoving = async (
  tx: Transaction,
  orgId: OrgId,
  id: DatabaseId,
  { status, from }: { status: DatabaseStatus; from: string },
): Promise<void> => {
  await tx`
    update keyhook.databases set status = ${status}, moving_from = ${from}
    where org_id = ${orgId} and id = ${id}`
}

/** Only this node may run it from now on. */
export const handOverDatabase = async (tx: Transaction, orgId: OrgId, id: DatabaseId, to: string): Promise<void> => {
  await tx`
    update keyhook.databases set node = ${to}
    where org_id = ${orgId} and id = ${id} and status = 'provisioning' and moving_from is not null`
}

/** It is served by its node, and the move is over. Without an address it is the old one. */
export const markDatabaseMoved = async (
  tx: Transaction,
  orgId: OrgId,
  id: DatabaseId,
  status: DatabaseStatus,
  address: { host: string; port: number } | null,
): Promise<void> => {
  await tx`
    update keyhook.databases
    set status = ${status}, moving_from = null, host = coalesce(${address?.host ?? null}, host),
      port = coalesce(${address?.port ?? null}, port)
    where org_id = ${orgId} and id = ${id}`
}

/** Nodes with room that have the same store as `from`, the emptiest first. Count again with the node locked. */
export const nodesToMoveTo = (db: Executor, from: string, silentSecondsMax: number) => db<
  { id: string; databases_max: number }[]
>`
  select n.id, n.databases_max
  from keyhook.nodes n
  join keyhook.nodes f on f.id = ${from} and f.store = n.store
  cross join lateral (
    select count(*) as taken from keyhook.databases d where d.node = n.id and d.status not in ('failed', 'deleted')
  ) d
  where n.id <> ${from} and n.state = 'active' and d.taken < n.databases_max
    and n.seen_at > clock_timestamp() - make_interval(secs => ${silentSecondsMax})
  order by d.taken, n.id`

export type StoredState = {
  backup_id: BackupId
  sha256: string
  key_id: string | null
  /** The WAL between these two is replayed after the backup. */
  stop_lsn: string
  until_lsn: string
  committed_lsn: string
  encrypted_from: string | null
  archived_until: Date
}

/** What the store has of a database: its newest backup that archived WAL follows. Null if there is none. */
export const findStoredState = async (db: Executor, orgId: OrgId, id: DatabaseId): Promise<StoredState | null> => {
  const [row] = await db<StoredState[]>`
    select b.id as backup_id, b.sha256, b.key_id, b.stop_lsn::text as stop_lsn, w.until_lsn::text as until_lsn,
      w.committed_lsn::text as committed_lsn, w.encrypted_from::text as encrypted_from, w.archived_until
    from keyhook.wal_archives w
    join keyhook.backups b on b.org_id = w.org_id and b.database_id = w.database_id
    where w.org_id = ${orgId} and w.database_id = ${id} and b.status = 'completed' and b.stop_lsn >= w.from_lsn
    order by b.stop_lsn desc
    limit 1`
  return row ?? null
}

/** Its backups are in a store that all these nodes have. Jobs about them go to this node from now on. */
export const handOverBackups = async (tx: Transaction, orgId: OrgId, id: DatabaseId, to: string): Promise<void> => {
  await tx`
    update keyhook.backups set node = ${to}
    where org_id = ${orgId} and database_id = ${id} and node <> ${to} and status <> 'running'`
}

/** The backups of databases that are deleted or failed, which do not move. */
export const handOverOtherBackups = async (tx: Transaction, from: string, to: string): Promise<void> => {
  await tx`
    update keyhook.backups b set node = ${to}
    from keyhook.databases d
    where d.org_id = b.org_id and d.id = b.database_id and d.status in ('deleted', 'failed')
      and b.node = ${from} and b.status <> 'running'`
}

export type MovingDatabase = {
  org_id: OrgId
  id: DatabaseId
  name: string
  status: DatabaseStatus
  node: string
  moving_from: string | null
}

/** Every database that is on this node, or is leaving it. */
export const databasesOn = (db: Executor, node: string) => db<MovingDatabase[]>`
  select org_id, id, name, status, node, moving_from
  from keyhook.databases
  where (node = ${node} or moving_from = ${node}) and status not in ('failed', 'deleted')
  order by id`
