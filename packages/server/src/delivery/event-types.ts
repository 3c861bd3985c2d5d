import type { Database, Executor, Transaction } from '../db/database.ts'
import { unknownEventType } from '../http/problems.ts'
import { Fault, invalid } from '../lib/faults.ts'
import { type CustomEventType, eventTypes, isPublishedType } from './events.ts'
import { type OptionalType, optionalDeclaration, optionalTypes } from './optional-types.ts'

export const listEventTypes = (db: Executor) => db<CustomEventType[]>`
  select name, description, schema, example from keyhook.event_types where removed_at is null order by name`

/** Without the optional types of Keyhook itself: what a file of declarations has. */
export const listDeclared = (db: Executor) => db<CustomEventType[]>`
  select name, description, schema, example from keyhook.event_types
  where removed_at is null and not built_in order by name`

export const findEventTypes = (db: Executor, names: readonly string[]) => db<CustomEventType[]>`
  select name, description, schema, example from keyhook.event_types
  where name = any (${names}::text[]) and removed_at is null`

/** Those of the names that are declared; they stay so until the transaction ends. */
export const lockEventTypes = async (tx: Transaction, names: readonly string[]): Promise<string[]> => {
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
const lockEventTypeTable = async (tx: Transaction): Promise<void> => {
  await tx`lock table keyhook.event_types in share row exclusive mode`
}

/** Declares them, also those that were removed before. */
const putEventTypes = async (
  tx: Transaction,
  types: readonly CustomEventType[],
  { builtIn }: { builtIn: boolean },
): Promise<void> => {
  await tx`
    insert into keyhook.event_types (name, description, schema, example, built_in)
    select *, ${builtIn}::boolean from unnest(
      ${types.map((type) => type.name)}::text[], ${types.map((type) => type.description)}::text[],
      ${types.map((type) => type.schema)}::text[], ${types.map((type) => type.example)}::text[]
    )
    on conflict (name) do update
    set description = excluded.description, schema = excluded.schema, example = excluded.example,
      built_in = excluded.built_in, removed_at = null`
}

/** Waits for webhooks that are being created with one of them. */
export const removeEventTypes = async (tx: Transaction, names: readonly string[]): Promise<void> => {
  await tx`update keyhook.event_types set removed_at = now() where name = any (${names}::text[])`
}

type Subscribed = { name: string; webhooks: number }

const countSubscriptions = (tx: Transaction, names: readonly string[]) => tx<Subscribed[]>`
  select t.name, count(*)::int as webhooks
  from unnest(${names}::text[]) as t (name)
  join keyhook.webhooks w on w.deleted_at is null and t.name = any (w.event_types)
  group by t.name order by t.name`

/** Keeps the types of a webhook declared until its transaction is committed, so that a removal finds the webhook. */
export async function lockDeclaredTypes(tx: Transaction, types: readonly string[]): Promise<void> {
  const custom = types.filter((type) => !isPublishedType(type))
  if (custom.length === 0) return
  const declared = await lockEventTypes(tx, custom)
  const removed = custom.find((type) => !declared.includes(type))
  if (removed !== undefined) throw unknownEventType(`/event_types/${types.indexOf(removed)}`)
}

/**
 * The types of a filter, separated by commas. A misspelt one is refused: its list would look as if nothing had happened. Types that
 * were removed are known, because stored events have them.
 */
export async function readTypeFilter(db: Database, text: string | undefined): Promise<string[] | null> {
  if (text === undefined) return null
  const types = text.split(',').map((type) => type.trim())
  if (types.every(isPublishedType)) return types
  const known = [...eventTypes, ...(await listEveryTypeName(db))]
  if (types.every((type) => known.includes(type))) return types
  const detail = `must be event types separated by commas, of ${known.join(', ')}`
  throw invalid([{ parameter: 'event_types', detail }])
}

/** What a file changes. Of a changed type, the fields that differ. */
export type EventTypeDiff = {
  added: string[]
  changed: { name: string; fields: string[] }[]
  removed: string[]
  unchanged: string[]
  /** Webhooks that are subscribed to a type which is removed. */
  subscribed: Subscribed[]
}

/** Makes the declared types exactly those that are given: one transaction, so no node ever sees a part of it. */
export const applyEventTypes = (
  db: Database,
  types: readonly CustomEventType[],
  { dryRun, force }: { dryRun: boolean; force: boolean },
): Promise<EventTypeDiff> =>
  db.begin(async (tx) => {
    await lockEventTypeTable(tx)
    const diff = diffOf(await listDeclared(tx), types)
    if (!dryRun) {
      await putEventTypes(tx, types, { builtIn: false })
      // Before the webhooks are counted: one that is being created is committed first, or finds the type removed.
      await removeEventTypes(tx, diff.removed)
    }
    const subscribed = await countSubscriptions(tx, diff.removed)
    if (!dryRun && !force && subscribed.length > 0) throw inUse(subscribed)
    return { ...diff, subscribed }
  })

/** Enables optional types of Keyhook itself. Again after an upgrade: their stored descriptions become those of this version. */
export const enableOptionalTypes = (db: Database, names: readonly OptionalType[]): Promise<void> =>
  db.begin(async (tx) => {
    await lockEventTypeTable(tx)
    await putEventTypes(tx, names.map(optionalDeclaration), { builtIn: true })
  })

export const disableOptionalTypes = (
  db: Database,
  names: readonly OptionalType[],
  { force }: { force: boolean },
): Promise<void> =>
  db.begin(async (tx) => {
    await lockEventTypeTable(tx)
    await removeEventTypes(tx, names)
    const subscribed = await countSubscriptions(tx, names)
    if (!force && subscribed.length > 0) throw inUse(subscribed)
  })

/** The optional types with whether they are enabled. */
export const listOptionalTypes = async (
  db: Database,
): Promise<{ name: string; description: string; enabled: boolean }[]> => {
  const stored = await findEventTypes(db, optionalTypes)
  return optionalTypes.map((name) => ({
    name,
    description: optionalDeclaration(name).description,
    enabled: stored.some((type) => type.name === name),
  }))
}

function diffOf(before: readonly CustomEventType[], after: readonly CustomEventType[]) {
  const known = new Map(before.map((type) => [type.name, type]))
  const changedFields = (type: CustomEventType, old: CustomEventType) =>
    (['description', 'schema', 'example'] as const).filter((field) => type[field] !== old[field])
  const kept = after.flatMap((type) => {
    const old = known.get(type.name)
    return old === undefined ? [] : [{ name: type.name, fields: changedFields(type, old) }]
  })
  const names = new Set(after.map((type) => type.name))
  return {
    added: [...names].filter((name) => !known.has(name)),
    changed: kept.filter(({ fields }) => fields.length > 0),
    removed: [...known.keys()].filter((name) => !names.has(name)),
    unchanged: kept.filter(({ fields }) => fields.length === 0).map(({ name }) => name),
  }
}

const inUse = (subscribed: readonly Subscribed[]): Fault =>
  new Fault('event_type.in_use', {
    public: `Nothing was changed, because webhooks are subscribed to what would be removed: ${subscribed
      .map(({ name, webhooks }) => `${name} (${webhooks})`)
      .join(', ')}. With --force it is removed, and these webhooks get no more events of it.`,
  })
