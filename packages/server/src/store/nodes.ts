import type { Executor, Transaction } from './database.ts'

export const announceNode = async (db: Executor, id: string, databasesMax: number): Promise<void> => {
  await db`
    insert into keyhook.nodes (id, databases_max) values (${id}, ${databasesMax})
    on conflict (id) do update set databases_max = excluded.databases_max, seen_at = clock_timestamp()`
}

/** Its databases stay its own; it only takes no new ones. */
export const withdrawNode = async (db: Executor, id: string): Promise<void> => {
  await db`update keyhook.nodes set seen_at = '-infinity' where id = ${id}`
}

/** The emptiest first. A look without a lock: count again, with the node locked, before taking the room. */
export const nodesWithRoom = (tx: Transaction, silentSecondsMax: number) => tx<{ id: string; databases_max: number }[]>`
  select n.id, n.databases_max
  from keyhook.nodes n
  cross join lateral (
    select count(*) as taken from keyhook.databases d where d.node = n.id and d.status not in ('failed', 'deleted')
  ) d
  where n.seen_at > clock_timestamp() - make_interval(secs => ${silentSecondsMax}) and d.taken < n.databases_max
  order by d.taken, n.id`
