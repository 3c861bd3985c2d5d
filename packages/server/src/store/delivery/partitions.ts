import { type Database, type Executor, isLockTimeout } from '../../db/database.ts'
import { uuid7Floor, uuid7Ms } from '../../kernel/uuid7.ts'

const weekMs = 7 * 86_400_000
/** The first Monday of the epoch, so that partitions begin on Mondays. */
const mondayMs = 4 * 86_400_000
const weeksAhead = 3

const weekOf = (ms: number): number => Math.floor((ms - mondayMs) / weekMs)
const startOf = (week: number): number => mondayMs + week * weekMs
const nameOf = (week: number): string =>
  `attempts_${new Date(startOf(week)).toISOString().slice(0, 10).replaceAll('-', '')}`

/** Start of the week that contains this time. Attempts are deleted by whole weeks. */
export const weekStartMs = (ms: number): number => startOf(weekOf(ms))

const listPartitions = async (db: Executor): Promise<string[]> => {
  const rows = await db<{ name: string }[]>`
    select c.relname as name from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'keyhook.attempts'::regclass`
  return rows.map((row) => row.name)
}

/** When the attempts in flight began, by the clocks of their dispatchers. */
const listInFlightMs = async (db: Executor): Promise<number[]> => {
  const rows = await db<{ id: string }[]>`select id from keyhook.in_flight`
  return rows.map((row) => uuid7Ms(row.id))
}

/** Last week's partition is for attempts that began before midnight on Sunday. */
async function missingWeeks(db: Executor, nowMs: number): Promise<number[]> {
  const weeks = Array.from({ length: weeksAhead + 2 }, (_, i) => weekOf(nowMs) - 1 + i)
  const inFlight = (await listInFlightMs(db)).map(weekOf)
  const existing = new Set(await listPartitions(db))
  return [...new Set([...weeks, ...inFlight])].filter((week) => !existing.has(nameOf(week)))
}

/**
 * Adds the partitions of this week and the next few, long before they are needed, and those of attempts in flight: their week may be
 * any, because a dispatcher's clock may have been wrong. Returns the new partitions.
 */
export async function ensurePartitions(db: Database, nowMs: number): Promise<string[]> {
  if ((await missingWeeks(db, nowMs)).length === 0) return []
  return db.begin(async (tx) => {
    await tx`select pg_advisory_xact_lock(hashtextextended('keyhook.partitions', 0))`
    // Again under the lock: another node may have added them meanwhile.
    const missing = await missingWeeks(tx, nowMs)
    for (const week of missing) {
      const [first, end] = [uuid7Floor(startOf(week)), uuid7Floor(startOf(week + 1))]
      await tx`select keyhook.add_attempts_partition(${nameOf(week)}, ${first}, ${end})`
    }
    return missing.map(nameOf)
  })
}

/**
 * Drops the partitions that hold only attempts older than that: no row is read and none is left to vacuum. The week of an attempt in
 * flight stays, however old it is, because its outcome will be stored there. Returns the dropped partitions.
 */
export async function dropPartitions(db: Database, olderThanMs: number): Promise<string[]> {
  const keptFromMs = (await listInFlightMs(db)).reduce((oldest, ms) => Math.min(oldest, ms), olderThanMs)
  const firstKept = nameOf(weekOf(keptFromMs))
  const dropped: string[] = []
  for (const name of (await listPartitions(db)).filter((one) => one < firstKept)) {
    if (await dropPartition(db, name)) dropped.push(name)
  }
  return dropped
}

/** False when it was locked; the next hour tries again. */
async function dropPartition(db: Database, name: string): Promise<boolean> {
  try {
    return await db.begin(async (tx) => {
      // When two nodes drop the same partition, PostgreSQL fails the later one with "could not find tuple for parent".
      const [lock] = await tx<{ ours: boolean }[]>`
        select pg_try_advisory_xact_lock(hashtextextended('keyhook.partitions', 0)) as ours`
      if (!lock!.ours) return false
      // While this waits for a long reader, everything that stores attempts waits behind it.
      await tx`set local lock_timeout = '250ms'`
      await tx`select keyhook.drop_attempts_partition(${name})`
      return true
    })
  } catch (error) {
    if (isLockTimeout(error)) return false
    throw error
  }
}
