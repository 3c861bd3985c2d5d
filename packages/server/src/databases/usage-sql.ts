import type { Executor, Transaction } from '../db/database.ts'
import type { DatabaseId, OrgId } from '../lib/ids.ts'
import type { StorageState } from './storage-rules.ts'

export type StorageStats = {
  id: DatabaseId
  usedBytes: number
  limitBytes: number
  state: StorageState
  message: string | null
}

/** Adds the size so far to the metered storage, for two minutes at most. Returns the available ones, which are the only ones with a row. */
export const recordStorageStats = async (
  db: Executor,
  node: string,
  stats: readonly StorageStats[],
): Promise<Set<DatabaseId>> => {
  const column = <K extends keyof StorageStats>(name: K) => stats.map((one) => one[name])
  const rows = await db<{ database_id: DatabaseId }[]>`
    with measured as (
      select d.org_id, d.id, m.used_bytes, m.limit_bytes, m.state, m.message
      from unnest(${column('id')}::text[], ${column('usedBytes')}::bigint[], ${column('limitBytes')}::bigint[],
        ${column('state')}::text[], ${column('message')}::text[]) as m (id, used_bytes, limit_bytes, state, message)
      join keyhook.databases d on d.node = ${node} and d.id = m.id and d.status = 'available'
    ), metered as (
      update keyhook.database_usage u
      set storage_byte_seconds = u.storage_byte_seconds
        + (s.storage_used_bytes * least(greatest(extract(epoch from clock_timestamp() - s.measured_at), 0), 120))::bigint
      from measured m
      join keyhook.database_stats s on s.org_id = m.org_id and s.database_id = m.id
      where u.org_id = m.org_id and u.database_id = m.id and u.ended_at is null
    )
    insert into keyhook.database_stats
      (org_id, database_id, storage_used_bytes, storage_limit_bytes, storage_state, storage_message, measured_at)
    select org_id, id, used_bytes, limit_bytes, state, message, clock_timestamp() from measured
    on conflict (org_id, database_id) do update set
      storage_used_bytes = excluded.storage_used_bytes, storage_limit_bytes = excluded.storage_limit_bytes,
      storage_state = excluded.storage_state, storage_message = excluded.storage_message,
      measured_at = excluded.measured_at
    returning database_id`
  return new Set(rows.map((row) => row.database_id))
}

/** The limits that the operator set for single databases of a node, and the states that the node recorded. */
export const storageOfNode = async (
  db: Executor,
  node: string,
): Promise<Map<DatabaseId, { limitBytes: number | null; state: StorageState | null }>> => {
  const rows = await db<{ id: DatabaseId; limit_bytes: number | null; state: StorageState | null }[]>`
    select d.id, d.storage_limit_bytes::float8 as limit_bytes, s.storage_state as state
    from keyhook.databases d
    left join keyhook.database_stats s on s.org_id = d.org_id and s.database_id = d.id
    where d.node = ${node} and d.status <> 'deleted'`
  return new Map(rows.map((row) => [row.id, { limitBytes: row.limit_bytes, state: row.state }]))
}

/** Null if there is no such database. */
export const organizationOfDatabase = async (db: Executor, id: DatabaseId): Promise<OrgId | null> => {
  const [row] = await db<
    { org_id: OrgId }[]
  >`select org_id from keyhook.databases where id = ${id} and status <> 'deleted'`
  return row?.org_id ?? null
}

/** From where on the owners are told, and where they may be told again: two, or they would be told with every checkpoint. */
const [nearlyFullShare, roomAgainShare] = [0.8, 0.7]

export type NearlyFull = { org_id: OrgId; id: DatabaseId; name: string; used_bytes: number; limit_bytes: number }

/** Those that have become nearly full since they were measured last. */
export const takeNearlyFull = async (tx: Transaction, ids: readonly DatabaseId[]): Promise<NearlyFull[]> => {
  const rows = await tx<(NearlyFull & { nearly_full: boolean })[]>`
    update keyhook.database_stats s set nearly_full = not s.nearly_full
    from keyhook.databases d
    where d.org_id = s.org_id and d.id = s.database_id and d.id = any(${[...ids]}::text[])
      and case when s.nearly_full then s.storage_used_bytes < s.storage_limit_bytes * ${roomAgainShare}::float8
        else s.storage_used_bytes >= s.storage_limit_bytes * ${nearlyFullShare}::float8 end
    returning d.org_id, d.id, d.name, s.storage_used_bytes::float8 as used_bytes,
      s.storage_limit_bytes::float8 as limit_bytes, s.nearly_full`
  return rows.filter((row) => row.nearly_full)
}

/** Returns the limit before; null if there is no such database. */
export const setStorageLimit = async (
  db: Executor,
  orgId: OrgId,
  id: DatabaseId,
  limitBytes: number | null,
): Promise<{ before: number | null } | null> => {
  const [row] = await db<{ before: number | null }[]>`
    with found as (
      select org_id, id, storage_limit_bytes from keyhook.databases
      where org_id = ${orgId} and id = ${id} and status <> 'deleted' for update
    )
    update keyhook.databases d set storage_limit_bytes = ${limitBytes}
    from found where d.org_id = found.org_id and d.id = found.id
    returning found.storage_limit_bytes::float8 as before`
  return row ?? null
}

/** What all databases of the organization may use together, in bytes. `unset`: the limit of those that have none of their own. */
export const storageLimitsOf = async (db: Executor, orgId: OrgId, unset: number): Promise<number> => {
  const { bytes } = await db<{ bytes: number }[]>`
    select coalesce(sum(coalesce(storage_limit_bytes, ${unset})), 0)::float8 as bytes
    from keyhook.databases where org_id = ${orgId} and status <> 'deleted'`.one()
  return bytes
}

export type ActivityRow = {
  size_bytes: number | null
  connections: number | null
  connections_max: number | null
  at: Date | null
}

/**
 * Into the rows that the storage monitor makes: a database without one is not available, or not measured yet. Also into the hour of
 * the history, of which eight days are kept, so that seven whole days can be shown.
 */
export const recordActivity = (
  db: Executor,
  node: string,
  found: readonly { id: DatabaseId; sizeBytes: number; connections: number; connectionsMax: number }[],
) => db`
  with measured as (
    select d.org_id, d.id, a.size_bytes, a.connections, a.connections_max
    from unnest(${found.map(({ id }) => id)}::text[], ${found.map(({ sizeBytes }) => sizeBytes)}::bigint[],
      ${found.map(({ connections }) => connections)}::int[], ${found.map(({ connectionsMax }) => connectionsMax)}::int[])
      as a (id, size_bytes, connections, connections_max)
    join keyhook.databases d on d.node = ${node} and d.id = a.id and d.status = 'available'
  ), hourly as (
    insert into keyhook.database_history as h (org_id, database_id, hour, size_bytes, connections)
    select org_id, id, date_trunc('hour', clock_timestamp(), 'UTC'), size_bytes, connections from measured
    on conflict (org_id, database_id, hour) do update set
      size_bytes = greatest(h.size_bytes, excluded.size_bytes), connections = greatest(h.connections, excluded.connections)
  ), expired as (
    delete from keyhook.database_history where hour < clock_timestamp() - interval '8 days'
  )
  update keyhook.database_stats s
  set size_bytes = m.size_bytes, connections = m.connections, connections_max = m.connections_max,
    activity_at = clock_timestamp()
  from measured m
  where s.org_id = m.org_id and s.database_id = m.id`

export type HourRow = { at: Date; size_bytes: number; connections: number }

/** The hours of the last seven days in which the database was measured, oldest first. Null if there is no such database. */
export const findHistory = async (db: Executor, orgId: OrgId, id: DatabaseId): Promise<HourRow[] | null> => {
  const rows = await db<(HourRow | { at: null })[]>`
    select h.hour as at, h.size_bytes::float8, h.connections
    from keyhook.databases d
    left join keyhook.database_history h on h.org_id = d.org_id and h.database_id = d.id
      and h.hour > now() - interval '7 days'
    where d.org_id = ${orgId} and d.id = ${id} and d.status <> 'deleted'
    order by h.hour`
  return rows.length === 0 ? null : rows.filter((row) => row.at !== null)
}

/** Statistics older than two minutes are not shown: the database or its node is down. Null if there is no such database. */
export const findActivity = (db: Executor, orgId: OrgId, id: DatabaseId) =>
  db<ActivityRow[]>`
    select s.size_bytes::float8, s.connections, s.connections_max, s.activity_at as at
    from keyhook.databases d
    left join keyhook.database_stats s on s.org_id = d.org_id and s.database_id = d.id
      and d.status = 'available' and s.activity_at > now() - interval '2 minutes'
    where d.org_id = ${orgId} and d.id = ${id} and d.status <> 'deleted'`.first()

export const startUsage = (tx: Transaction, orgId: OrgId, id: DatabaseId) => tx`
  insert into keyhook.database_usage (org_id, database_id, started_at) values (${orgId}, ${id}, clock_timestamp())
  on conflict do nothing`

export const endUsage = async (tx: Transaction, orgId: OrgId, id: DatabaseId): Promise<void> => {
  // Not before its start: a clock that was set back must not block a deletion.
  await tx`
    update keyhook.database_usage set ended_at = greatest(started_at, clock_timestamp())
    where org_id = ${orgId} and database_id = ${id} and ended_at is null`
}

export type Usage = { databaseId: string; name: string; from: Date; to: Date | null }

export const usageOf = (tx: Executor, orgId: OrgId, period: { from: Date; to: Date }) => tx<Usage[]>`
  select u.database_id as "databaseId", d.name, u.started_at as from, u.ended_at as to
  from keyhook.database_usage u
  join keyhook.databases d on d.org_id = u.org_id and d.id = u.database_id
  where u.org_id = ${orgId} and u.started_at < ${period.to} and (u.ended_at is null or u.ended_at > ${period.from})
  order by u.database_id`

/** Every month that began before `until` with usage of an organization and without an invoice. */
export const unbilledMonths = (db: Executor, until: Date) => db<{ org_id: OrgId; month: string }[]>`
  select distinct u.org_id, to_char(m.begins, 'YYYY-MM') as month
  from keyhook.database_usage u join keyhook.organizations o on o.id = u.org_id and o.deleted_at is null
  cross join lateral generate_series(
    date_trunc('month', u.started_at at time zone 'UTC'),
    -- Usage that ended exactly with a month is not in the next one.
    least(u.ended_at, ${until}) at time zone 'UTC' - interval '1 microsecond',
    interval '1 month'
  ) as m (begins)
  where not exists (
    select 1 from keyhook.invoices i where i.org_id = u.org_id and i.month = to_char(m.begins, 'YYYY-MM')
  )
  order by u.org_id, month`
