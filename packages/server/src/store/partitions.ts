import { uuid7Floor } from '../kernel/uuid7.ts'
import type { Database, Executor } from './database.ts'

const weekMs = 7 * 86_400_000
/** The first Monday of the epoch, so that partitions begin on Mondays. */
const mondayMs = 4 * 86_400_000
const weeksAhead = 3

const weekOf = (ms: number): number => Math.floor((ms - mondayMs) / weekMs)
const startOf = (week: number): number => mondayMs + week * weekMs
const nameOf = (week: number): string =>
  `attempts_${new Date(startOf(week)).toISOString().slice(0, 10).replaceAll('-', '')}`

const listPartitions = (db: Executor) => db<{ name: string }[]>`
  select c.relname as name from pg_inherits i join pg_class c on c.oid = i.inhrelid
  where i.inhparent = 'keyhook.attempts'::regclass`

/**
 * Makes this week's partition and the next few. Called often and long before they are needed, since making one locks the
 * whole table for a moment; last week is there for attempts that began before midnight on Sunday.
 */
export async function ensurePartitions(db: Database, nowMs: number): Promise<string[]> {
  const here = new Set((await listPartitions(db)).map(({ name }) => name))
  const now = weekOf(nowMs)
  const missing = Array.from({ length: weeksAhead + 2 }, (_, i) => now - 1 + i).filter(
    (week) => !here.has(nameOf(week)),
  )
  if (missing.length === 0) return []
  await db.begin(async (tx) => {
    await tx`select pg_advisory_xact_lock(hashtextextended('keyhook.partitions', 0))`
    for (const week of missing) {
      await tx.unsafe(
        `create table if not exists keyhook.${nameOf(week)} partition of keyhook.attempts
         for values from ('${uuid7Floor(startOf(week))}') to ('${uuid7Floor(startOf(week + 1))}')`,
      )
    }
  })
  return missing.map(nameOf)
}

/** Drops the partitions whose newest attempt is older than that. Whole files go: nothing is scanned and nothing vacuumed. */
export async function dropPartitions(db: Database, olderThanMs: number): Promise<string[]> {
  const names = (await listPartitions(db)).map(({ name }) => name)
  const old = names.filter((name) => name < nameOf(weekOf(olderThanMs)))
  for (const name of old) {
    await db.begin(async (tx) => {
      // Better to come back later than to have every reader queue behind us.
      await tx`set local lock_timeout = '2s'`
      await tx.unsafe(`drop table if exists keyhook.${name}`)
    })
  }
  return old
}

/**
 * Deletes events of that age whose deliveries are all finished, a thousand at a time. What is still being tried stays,
 * however old it is.
 */
export async function deleteOldEvents(db: Database, olderThanMs: number): Promise<number> {
  const [row] = await db<{ count: number }[]>`
    with old as materialized (
      select e.org_id, e.seq from keyhook.events e
      where e.created_at < to_timestamp(${olderThanMs} / 1000.0)
        and not exists (
          select 1 from keyhook.deliveries d join keyhook.lanes l on l.id = d.lane_id and l.org_id = d.org_id
          where d.org_id = e.org_id and d.event_seq = e.seq and l.ended_at is null
            and (l.cursor_seq < d.event_seq or exists (
              select 1 from keyhook.unsettled u where u.lane_id = d.lane_id and u.event_seq = d.event_seq
            ))
        )
      limit 1000
    ), deliveries as (
      delete from keyhook.deliveries d using old where d.org_id = old.org_id and d.event_seq = old.seq
    ), events as (
      delete from keyhook.events e using old where e.org_id = old.org_id and e.seq = old.seq returning 1
    )
    select count(*)::int as count from events`
  return row?.count ?? 0
}
