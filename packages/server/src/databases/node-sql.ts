import type { WalRange } from '../archives/wal-archive.ts'
import type { Executor, Transaction } from '../db/database.ts'
import type { BackupId, DatabaseId, OrgId } from '../lib/ids.ts'
import type { DatabaseStatus } from './database.ts'

export type Prices = { currency: string; hourPriceMinor: number }

export type NodeState = 'active' | 'draining' | 'forgotten'

export type Announcement = {
  databasesMax: number
  prices: Prices
  host: string | null
  /** Which store its archives are in; null: its databases cannot move. */
  store: string | null
  /** The databases whose servers run; null if that is not known here. */
  up: readonly DatabaseId[] | null
}

/** A node that counts as dead may only be slow, so nothing that it does later counts for jobs that others have taken over. */
export const deadAfterSeconds = 5

/** Does not wait for the disk: a heartbeat that is lost costs nothing. False for a node that was forgotten: it must not run anything. */
export const announceNode = async (db: Executor, id: string, node: Announcement): Promise<boolean> => {
  const { databasesMax, prices, host, store, up } = node
  const rows = await db`
    insert into keyhook.nodes as n (id, databases_max, currency, hour_price_minor, host, store, down)
    select ${id}, ${databasesMax}, ${prices.currency}, ${prices.hourPriceMinor}, ${host}, ${store},
      array(
        select d.id from keyhook.databases d
        where ${up !== null} and d.node = ${id} and d.status = 'available'
        except select unnest(${[...(up ?? [])]}::text[])
      )
    from set_config('synchronous_commit', 'off', true)
    on conflict (id) do update set databases_max = excluded.databases_max, currency = excluded.currency,
      hour_price_minor = excluded.hour_price_minor, host = excluded.host, store = excluded.store,
      down = excluded.down, seen_at = clock_timestamp()
      where n.state <> 'forgotten'
    returning 1`
  return rows.length > 0
}

export type NodeRow = {
  id: string
  state: NodeState
  host: string | null
  store: string | null
  databases_max: number
  databases: number
  silent_seconds: number
}

export const listNodes = (db: Executor) => db<NodeRow[]>`
  select n.id, n.state, n.host, n.store, n.databases_max,
    extract(epoch from clock_timestamp() - greatest(n.seen_at, '2000-01-01'))::float8 as silent_seconds,
    (select count(*)::int from keyhook.databases d where d.node = n.id and d.status not in ('failed', 'deleted'))
      as databases
  from keyhook.nodes n
  order by n.id`

/** False if it was forgotten, which is final, or does not exist. */
export const setNodeState = (db: Executor, id: string, state: NodeState) =>
  db`
    update keyhook.nodes set state = ${state}
    where id = ${id} and (state <> 'forgotten' or ${state} = 'forgotten')
    returning 1`.exists()

export const isForgotten = (db: Executor, id: string) =>
  db`select 1 from keyhook.nodes where id = ${id} and state = 'forgotten'`.exists()

/** The prices of the node that was seen last; null if there was none. */
export const pricesInUse = (db: Executor) =>
  db<Prices[]>`
    select currency, hour_price_minor::float8 as "hourPriceMinor" from keyhook.nodes
    where currency is not null
    order by seen_at desc
    limit 1`.first()

/** It keeps its databases, but takes no new ones. */
export const withdrawNode = (db: Executor, id: string) =>
  db`update keyhook.nodes set databases_max = 0, seen_at = clock_timestamp() where id = ${id}`

type NodeWithRoom = { id: string; databases_max: number }

/** The emptiest first. Read without a lock: count again with the node locked before placing a database. */
export const nodesWithRoom = (tx: Transaction, silentSecondsMax: number) => tx<NodeWithRoom[]>`
  select n.id, n.databases_max ${withRoom(tx, silentSecondsMax)} order by d.taken, n.id`

/** Those that have the same store as `from`. */
export const nodesToMoveTo = (db: Executor, from: string, silentSecondsMax: number) => db<NodeWithRoom[]>`
  select n.id, n.databases_max ${withRoom(db, silentSecondsMax)}
    and n.id <> ${from} and n.store = (select f.store from keyhook.nodes f where f.id = ${from})
  order by d.taken, n.id`

const withRoom = (db: Executor, silentSecondsMax: number) => db`
  from keyhook.nodes n
  cross join lateral (
    select count(*) as taken from keyhook.databases d where d.node = n.id and d.status not in ('failed', 'deleted')
  ) d
  where n.seen_at > clock_timestamp() - make_interval(secs => ${silentSecondsMax}) and d.taken < n.databases_max
    and n.state = 'active'`

/** The other nodes that were not seen for longer than that, by the database's clock. */
export const silentNodes = (db: Executor, self: string, silentSeconds: number) => db<
  { id: string; silent_seconds: number }[]
>`
  select id, extract(epoch from clock_timestamp() - greatest(seen_at, '2000-01-01'))::float8 as silent_seconds
  from keyhook.nodes
  where id <> ${self} and seen_at < clock_timestamp() - make_interval(secs => ${silentSeconds})
  order by id`

/** Deletes nodes without a heartbeat for that long and without data. One that comes back adds its row again, and its queue is kept. */
export const forgetNodes = async (db: Executor, silentSeconds: number): Promise<string[]> => {
  const rows = await db<{ id: string }[]>`
    delete from keyhook.nodes n
    where n.seen_at < clock_timestamp() - make_interval(secs => ${silentSeconds})
      -- Its row keeps it from starting again.
      and n.state <> 'forgotten'
      and not exists (select 1 from keyhook.databases d where d.node = n.id and d.status <> 'deleted')
      -- A restore runs where its backup is, and has to be able to report that this node is away.
      and not exists (select 1 from keyhook.backups b where b.node = n.id and b.status <> 'deleted')
    returning n.id`
  return rows.map((row) => row.id)
}

/* `moving_from` is the node that a database leaves, from the request until it is served again. `node` is always the one that may run it. */

/** Requests that the other databases that run on this node leave it, and returns those that were not leaving already. */
export const requestMoves = (tx: Transaction, node: string, except: readonly string[]) => tx<
  { org_id: OrgId; id: DatabaseId }[]
>`
  update keyhook.databases set moving_from = node
  where node = ${node} and status = 'available' and moving_from is null and id <> all(${[...except]}::text[])
  returning org_id, id`

/** Clients cannot reach it from now on, until it is served again. */
export const markDatabaseMoving = (
  tx: Transaction,
  orgId: OrgId,
  id: DatabaseId,
  { status, from }: { status: DatabaseStatus; from: string },
) => tx`
  update keyhook.databases set status = ${status}, moving_from = ${from}
  where org_id = ${orgId} and id = ${id}`

/** Only this node may run it from now on. */
export const handOverDatabase = (tx: Transaction, orgId: OrgId, id: DatabaseId, to: string) => tx`
  update keyhook.databases set node = ${to}
  where org_id = ${orgId} and id = ${id} and status = 'provisioning' and moving_from is not null`

/** It is served by its node, and the move is over. Without an address it is the old one. */
export const markDatabaseMoved = (
  tx: Transaction,
  orgId: OrgId,
  id: DatabaseId,
  status: DatabaseStatus,
  address: { host: string; port: number } | null,
) => tx`
  update keyhook.databases
  set status = ${status}, moving_from = null, host = coalesce(${address?.host ?? null}, host),
    port = coalesce(${address?.port ?? null}, port)
  where org_id = ${orgId} and id = ${id}`

export type StoredState = WalRange & { backupId: BackupId; sha256: string; keyId: string | null; archivedUntil: Date }

/** What the store has of a database: its newest backup, and the WAL that is replayed after it. Null if there is none. */
export const findStoredState = (db: Executor, orgId: OrgId, id: DatabaseId) =>
  db<StoredState[]>`
    select b.id as "backupId", b.sha256, b.key_id as "keyId", b.stop_lsn::text as from, w.until_lsn::text as until,
      w.committed_lsn::text as committed, w.encrypted_from::text as "encryptedFrom", w.archived_until as "archivedUntil"
    from keyhook.wal_archives w
    join keyhook.backups b on b.org_id = w.org_id and b.database_id = w.database_id
    where w.org_id = ${orgId} and w.database_id = ${id} and b.status = 'completed' and b.stop_lsn >= w.from_lsn
    order by b.stop_lsn desc
    limit 1`.first()

/** Its backups are in a store that all these nodes have. Jobs about them go to this node from now on. */
export const handOverBackups = (tx: Transaction, orgId: OrgId, id: DatabaseId, to: string) => tx`
  update keyhook.backups set node = ${to}
  where org_id = ${orgId} and database_id = ${id} and node <> ${to} and status <> 'running'`

/** The backups of databases that are deleted or failed, which do not move. */
export const handOverOtherBackups = (tx: Transaction, from: string, to: string) => tx`
  update keyhook.backups b set node = ${to}
  from keyhook.databases d
  where d.org_id = b.org_id and d.id = b.database_id and d.status in ('deleted', 'failed')
    and b.node = ${from} and b.status <> 'running'`

type MovingDatabase = {
  org_id: OrgId
  id: DatabaseId
  name: string
  status: DatabaseStatus
  node: string
  moving_from: string | null
}

/** Every database that is on this node, or is leaving it. */
export const remainingOn = (db: Executor, node: string) => db<MovingDatabase[]>`
  select org_id, id, name, status, node, moving_from
  from keyhook.databases
  where (node = ${node} or moving_from = ${node}) and status not in ('failed', 'deleted')
  order by id`
