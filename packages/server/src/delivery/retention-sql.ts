import { type Database, type Executor, isLockTimeout } from '../db/database.ts'
import { type OrgId, uuid7Floor, uuid7Ms } from '../lib/ids.ts'

const eventsPerStatement = 1_000

/** Organizations with events older than that, and the number of the newest such event: one index look-up per organization. */
export const listOldEvents = async (
  db: Database,
  olderThanMs: number,
): Promise<{ orgId: OrgId; upToSeq: number }[]> => {
  const rows = await db<{ org_id: OrgId; seq: string }[]>`
    select c.org_id, e.seq
    from keyhook.event_counters c
    cross join lateral (
      select e.seq from keyhook.events e
      where e.org_id = c.org_id and e.created_at < to_timestamp(${olderThanMs} / 1000.0)
      order by e.created_at desc limit 1
    ) e`
  return rows.map((row) => ({ orgId: row.org_id, upToSeq: Number(row.seq) }))
}

/**
 * Examines the next thousand events and deletes those that are finished for every webhook and have no attempts in the history any
 * more. Nothing can send such an event again: redelivery starts from an attempt or a waiting retry. Events that another node is
 * deleting are skipped. Returns how far it came; null at the end. The newest number that was deleted is remembered, because the
 * events before it that are left are not all.
 *
 * A retry of a deleted webhook does not count: it is left by an attempt that was settled while the webhook was being deleted.
 */
export const deleteFinishedEvents = async (
  db: Database,
  orgId: OrgId,
  { afterSeq, upToSeq }: { afterSeq: number; upToSeq: number },
): Promise<number | null> => {
  const [row] = await db<{ examined: number; up_to: string | null }[]>`
    with examined as materialized (
      select e.seq, e.sample from keyhook.events e
      where e.org_id = ${orgId} and e.seq > ${afterSeq} and e.seq <= ${upToSeq}
      order by e.seq limit ${eventsPerStatement} for update skip locked
    ), finished as materialized (
      select s.seq from examined s
      where not exists (
        select from keyhook.deliveries d join keyhook.lanes l on l.id = d.lane_id
        where d.org_id = ${orgId} and d.event_seq = s.seq and (
          (l.ended_at is null and l.cursor_seq < d.event_seq)
          or (l.ended_at is null and exists (
            select from keyhook.retries r where r.lane_id = d.lane_id and r.event_seq = d.event_seq
          ))
          or exists (select from keyhook.in_flight f where f.lane_id = d.lane_id and f.event_seq = d.event_seq)
          or exists (select from keyhook.attempts a where a.lane_id = d.lane_id and a.event_seq = d.event_seq)
        )
      ) and not exists (
        -- A test event that did not wait for its turn: it has no row among the deliveries.
        select from keyhook.lanes l
        where s.sample and l.org_id = ${orgId} and not exists (
          select from keyhook.deliveries d where d.org_id = ${orgId} and d.event_seq = s.seq
        ) and (
          (l.ended_at is null and exists (select from keyhook.retries r where r.lane_id = l.id and r.event_seq = s.seq))
          or exists (select from keyhook.in_flight f where f.lane_id = l.id and f.event_seq = s.seq)
          or exists (select from keyhook.attempts a where a.lane_id = l.id and a.event_seq = s.seq)
        )
      )
    ), deliveries as (
      delete from keyhook.deliveries d using finished f where d.org_id = ${orgId} and d.event_seq = f.seq
      returning d.lane_id, d.event_seq
    ), retries as (
      delete from keyhook.retries r using deliveries d where r.lane_id = d.lane_id and r.event_seq = d.event_seq
    ), events as (
      delete from keyhook.events e using finished f where e.org_id = ${orgId} and e.seq = f.seq
      returning e.sequence
    ), expired as (
      insert into keyhook.expired_events as x (org_id, last_sequence)
      select ${orgId}, max(sequence) from events having max(sequence) is not null
      on conflict (org_id) do update set last_sequence = greatest(x.last_sequence, excluded.last_sequence)
    )
    select count(*)::int as examined, max(seq) as up_to from examined`
  return row!.examined < eventsPerStatement ? null : Number(row!.up_to)
}

/** No attempt of before that time is left to show them with. */
export const deleteEarlierUrls = async (db: Database, olderThanMs: number): Promise<void> => {
  await db`delete from keyhook.earlier_urls where until < to_timestamp(${olderThanMs} / 1000.0)`
}

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
