import type { Executor, Transaction } from '../../db/database.ts'
import type { DatabaseId } from '../../kernel/ids.ts'

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

/**
 * After this many seconds without a heartbeat a node counts as dead. It may only be slow, so nothing that it does later
 * counts for jobs that others have taken over.
 */
export const deadAfterSeconds = 5

/**
 * Every node does this every second. It does not wait for the disk: losing one in a power failure costs nothing. False for a node that was
 * forgotten: it must not run anything.
 */
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
export const setNodeState = async (db: Executor, id: string, state: NodeState): Promise<boolean> => {
  const rows = await db`
    update keyhook.nodes set state = ${state}
    where id = ${id} and (state <> 'forgotten' or ${state} = 'forgotten')
    returning 1`
  return rows.length > 0
}

export const isForgotten = async (db: Executor, id: string): Promise<boolean> => {
  const rows = await db`select 1 from keyhook.nodes where id = ${id} and state = 'forgotten'`
  return rows.length > 0
}

/** The prices of the node that was seen last; null if there was none. */
export const pricesInUse = async (db: Executor): Promise<Prices | null> => {
  const [row] = await db<Prices[]>`
    select currency, hour_price_minor::float8 as "hourPriceMinor" from keyhook.nodes
    where currency is not null
    order by seen_at desc
    limit 1`
  return row ?? null
}

/** It keeps its databases, but takes no new ones. */
export const withdrawNode = async (db: Executor, id: string): Promise<void> => {
  await db`update keyhook.nodes set databases_max = 0, seen_at = clock_timestamp() where id = ${id}`
}

/** The emptiest first. Read without a lock: count again with the node locked before placing a database. */
export const nodesWithRoom = (tx: Transaction, silentSecondsMax: number) => tx<{ id: string; databases_max: number }[]>`
  select n.id, n.databases_max
  from keyhook.nodes n
  cross join lateral (
    select count(*) as taken from keyhook.databases d where d.node = n.id and d.status not in ('failed', 'deleted')
  ) d
  where n.seen_at > clock_timestamp() - make_interval(secs => ${silentSecondsMax}) and d.taken < n.databases_max
    and n.state = 'active'
  order by d.taken, n.id`

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
