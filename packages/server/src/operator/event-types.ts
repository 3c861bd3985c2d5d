import type { Database } from '../db/database.ts'
import type { CustomEventType } from '../domain/event-types.ts'
import { Fault } from '../kernel/faults.ts'
import {
  countSubscriptions,
  listEventTypes,
  lockEventTypes,
  putEventTypes,
  removeEventTypes,
  type Subscribed,
} from '../store/event-types.ts'

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
    await lockEventTypes(tx)
    const diff = diffOf(await listEventTypes(tx), types)
    if (!dryRun) {
      await putEventTypes(tx, types)
      // Before the webhooks are counted: one that is being created is committed first, or finds the type removed.
      await removeEventTypes(tx, diff.removed)
    }
    const subscribed = await countSubscriptions(tx, diff.removed)
    if (!dryRun && !force && subscribed.length > 0) throw inUse(subscribed)
    return { ...diff, subscribed }
  })

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
