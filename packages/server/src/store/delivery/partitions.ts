import { type Database, type Executor, isLockTimeout } from '../../db/database.ts'
import { uuid7Floor } from '../../kernel/uuid7.ts'

const weekMs = 7 * 86_400_000
/** The first Monday of the epoch, so that partitions begin on Mondays. */
const mondayMs = 4 * 86_400_000
const weeksAhead = 3

const weekOf = (ms: number): number => Math.floor((ms - mondayMs) / weekMs)
const startOf = (week: number): number => mondayMs + week * weekMs
const nameOf = (week: number): string =>
  `attempts_${new Date(startOf(week)).toISOString().slice(0, 10).replaceAll('-', '')}`

/** Attempts leave by whole weeks: where the week begins that this moment is in. */
export const weekStartMs = (ms: number): number => startOf(weekOf(ms))

const listPartitions = async (db: Executor): Promise<string[]> => {
  const rows = await db<{ name: string }[]>`
    select c.relname as name from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'keyhook.attempts'::regclass`
  return rows.map((row) => row.name)
}

/** Last week is there for attempts that began before midnight on Sunday. */
const neededPartitions = (nowMs: number, attemptsMs: readonly number[], here: readonly string[]): number[] => {
  const weeks = Array.from({ length: weeksAhead + 2 }, (_, i) => weekOf(nowMs) - 1 + i)
  return [...new Set([...weeks, ...attemptsMs.map(weekOf)])].filter((week) => !here.includes(nameOf(week)))
}

/**
 * Makes this week's partition and the next few, long before they are needed.
 * `attemptsMs`: weeks of attempts that are to be stored, whatever the clock said when they were begun.
 */
export async function ensurePartitions(
  db: Database,
  nowMs: number,
  attemptsMs: readonly number[] = [],
): Promise<string[]> {
  if (neededPartitions(nowMs, attemptsMs, await listPartitions(db)).length === 0) return []
  return db.begin(async (tx) => {
    await tx`select pg_advisory_xact_lock(hashtextextended('keyhook.partitions', 0))`
    // Again under the lock: another node may have made them while we waited.
    const missing = neededPartitions(nowMs, attemptsMs, await listPartitions(tx))
    for (const week of missing) {
      const [first, end] = [uuid7Floor(startOf(week)), uuid7Floor(startOf(week + 1))]
      await tx`select keyhook.add_attempts_partition(${nameOf(week)}, ${first}, ${end})`
    }
    return missing.map(nameOf)
  })
}

/**
 * Drops the partitions whose newest attempt is older than that. Whole files go: nothing is scanned and nothing vacuumed.
 * The week of an attempt that nobody has settled yet stays, however old it is: its outcome has to go somewhere. So does that of
 * one which is settled and which its lane still lists: without its record it would count as being on its way.
 */
export async function dropPartitions(db: Database, olderThanMs: number): Promise<string[]> {
  const oldestBegunMs = await findOldestBegun(db)
  const firstKept = nameOf(weekOf(Math.min(olderThanMs, oldestBegunMs)))
  const dropped: string[] = []
  for (const name of (await listPartitions(db)).filter((one) => one < firstKept)) {
    if (await dropPartition(db, name)) dropped.push(name)
  }
  return dropped
}

async function findOldestBegun(db: Database): Promise<number> {
  const [row] = await db<{ ms: string | null }[]>`
    select (extract(epoch from min(started_at)) * 1000)::bigint as ms from keyhook.in_flight`
  return row?.ms == null ? Number.POSITIVE_INFINITY : Number(row.ms)
}

/** False when it has to wait for another time. */
async function dropPartition(db: Database, name: string): Promise<boolean> {
  try {
    return await db.begin(async (tx) => {
      // Two nodes that drop one partition: PostgreSQL tells the later that it "could not find tuple for parent".
      const [lock] = await tx<{ ours: boolean }[]>`
        select pg_try_advisory_xact_lock(hashtextextended('keyhook.partitions', 0)) as ours`
      if (!lock!.ours) return false
      // Whoever writes attempts queues behind us while we wait for a long reader: better to come back in an hour.
      await tx`set local lock_timeout = '250ms'`
      await tx`select keyhook.drop_attempts_partition(${name})`
      return true
    })
  } catch (error) {
    if (isLockTimeout(error)) return false
    throw error
  }
}
