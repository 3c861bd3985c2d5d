import type { Database, Executor, Transaction } from '../db/database.ts'
import type { CustomEventType } from '../domain/event-types.ts'

/** All that are declared, by name. */
export const listEventTypes = (db: Executor) => db<CustomEventType[]>`
  select name, description, schema, example from keyhook.event_types where removed_at is null order by name`

export const findEventTypes = (db: Executor, names: readonly string[]) => db<CustomEventType[]>`
  select name, description, schema, example from keyhook.event_types
  where name = any (${names}::text[]) and removed_at is null`

/** Those of the names that are declared; they stay so until the transaction ends. */
export const keepEventTypes = async (tx: Transaction, names: readonly string[]): Promise<string[]> => {
  const rows = await tx<{ name: string }[]>`
    select name from keyhook.event_types where name = any (${names}::text[]) and removed_at is null
    order by name for share`
  return rows.map((row) => row.name)
}

/** Types that stored records can name: also those that were removed. */
export const listEveryTypeName = async (db: Database): Promise<string[]> => {
  const rows = await db<{ name: string }[]>`select name from keyhook.event_types order by name`
  return rows.map((row) => row.name)
}

/** One application of a file at a time. Readers do not wait. */
export const lockEventTypes = async (tx: Transaction): Promise<void> => {
  await tx`lock table keyhook.event_types in share row exclusive mode`
}

/** Declares them, also those that were removed before. */
export const putEventTypes = async (tx: Transaction, types: readonly CustomEventType[]): Promise<void> => {
  await tx`
    insert into keyhook.event_types (name, description, schema, example)
    select * from unnest(
      ${types.map((type) => type.name)}::text[], ${types.map((type) => type.description)}::text[],
      ${types.map((type) => type.schema)}::text[], ${types.map((type) => type.example)}::text[]
    )
    on conflict (name) do update
    set description = excluded.description, schema = excluded.schema, example = excluded.example, removed_at = null`
}

/** Waits for webhooks that are being created with one of them. */
export const removeEventTypes = async (tx: Transaction, names: readonly string[]): Promise<void> => {
  await tx`update keyhook.event_types set removed_at = now() where name = any (${names}::text[])`
}

export type Subscribed = { name: string; webhooks: number }

export const countSubscriptions = (tx: Transaction, names: readonly string[]) => tx<Subscribed[]>`
  select t.name, count(*)::int as webhooks
  from unnest(${names}::text[]) as t (name)
  join keyhook.webhooks w on w.deleted_at is null and t.name = any (w.event_types)
  group by t.name order by t.name`
