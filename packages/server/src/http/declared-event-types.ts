import type { Database, Transaction } from '../db/database.ts'
import { eventTypes, isPublishedType } from '../domain/event-types.ts'
import { invalid } from '../kernel/faults.ts'
import { keepEventTypes, listEveryTypeName } from '../store/event-types.ts'
import { unknownEventType } from './problems.ts'

/** Keeps the types of a webhook declared until its transaction is committed, so that a removal finds the webhook. */
export async function keepDeclared(tx: Transaction, types: readonly string[]): Promise<void> {
  const custom = types.filter((type) => !isPublishedType(type))
  if (custom.length === 0) return
  const declared = await keepEventTypes(tx, custom)
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
