import type { Executor } from '../../db/database.ts'
import type { StorageState } from '../../domain/storage.ts'
import type { DatabaseId, OrgId } from '../../kernel/ids.ts'

export type StorageFigures = {
  id: DatabaseId
  usedBytes: number
  limitBytes: number
  state: StorageState
  message: string | null
}

/**
 * What a node measured of its databases. The size so far is added to the metered storage for the time since it was measured, two minutes
 * at most: a node that was away measured nothing. Returns those that are available, which are the only ones with a row.
 */
export const recordFigures = async (
  db: Executor,
  node: string,
  figures: readonly StorageFigures[],
): Promise<Set<DatabaseId>> => {
  const column = <K extends keyof StorageFigures>(name: K) => figures.map((one) => one[name])
  const rows = await db<{ database_id: DatabaseId }[]>`
    with measured as (
      select d.org_id, d.id, m.used_bytes, m.limit_bytes, m.state, m.message
      from unnest(${column('id')}::text[], ${column('usedBytes')}::bigint[], ${column('limitBytes')}::bigint[],
        ${column('state')}::text[], ${column('message')}::text[]) as m (id, used_bytes, limit_bytes, state, message)
      join keyhook.databases d on d.node = ${node} and d.id = m.id and d.status = 'available'
    ), metered as (
      update keyhook.database_usage u
      set storage_byte_seconds = u.storage_byte_seconds
        + (f.storage_used_bytes * least(greatest(extract(epoch from clock_timestamp() - f.measured_at), 0), 120))::bigint
      from measured m
      join keyhook.database_figures f on f.org_id = m.org_id and f.database_id = m.id
      where u.org_id = m.org_id and u.database_id = m.id and u.ended_at is null
    )
    insert into keyhook.database_figures
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
    select d.id, d.storage_limit_bytes::float8 as limit_bytes, f.storage_state as state
    from keyhook.databases d
    left join keyhook.database_figures f on f.org_id = d.org_id and f.database_id = d.id
    where d.node = ${node} and d.status <> 'deleted'`
  return new Map(rows.map((row) => [row.id, { limitBytes: row.limit_bytes, state: row.state }]))
}

/** Returns the limit before; null if there is no such database. */
export const setStorageLimit = async (
  db: Executor,
  id: DatabaseId,
  limitBytes: number | null,
): Promise<{ orgId: OrgId; before: number | null } | null> => {
  const [row] = await db<{ org_id: OrgId; before: number | null }[]>`
    with found as (
      select org_id, id, storage_limit_bytes from keyhook.databases where id = ${id} and status <> 'deleted' for update
    )
    update keyhook.databases d set storage_limit_bytes = ${limitBytes}
    from found where d.org_id = found.org_id and d.id = found.id
    returning d.org_id, found.storage_limit_bytes::float8 as before`
  return row === undefined ? null : { orgId: row.org_id, before: row.before }
}
