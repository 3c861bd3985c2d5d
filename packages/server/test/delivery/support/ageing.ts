import type { Database } from '../../../src/db/database.ts'
import { ensurePartitions } from '../../../src/delivery/retention-sql.ts'
import { uuid7Floor, uuid7Ms } from '../../../src/lib/ids.ts'

const dayMs = 86_400_000

const olderId = (uuid: string, ms: number) => uuid7Floor(uuid7Ms(uuid) - ms).slice(0, 13) + uuid.slice(13)

/** Makes an event and its attempts, ended and in flight, so many days older. */
export async function age(db: Database, eventId: string, days: number): Promise<void> {
  const ms = days * dayMs
  const back = `${ms} milliseconds`
  const [event] = await db<{ org_id: string; seq: string }[]>`
    update keyhook.events set created_at = created_at - ${back}::interval where id = ${eventId} returning org_id, seq`
  const { org_id, seq } = event!
  for (const { id } of await db<{ id: string }[]>`
    select id from keyhook.attempts where org_id = ${org_id} and event_seq = ${seq}`) {
    await ensurePartitions(db, uuid7Ms(id) - ms)
    await db`
      update keyhook.attempts set id = ${olderId(id, ms)}, started_at = started_at - ${back}::interval where id = ${id}`
  }
  for (const { id } of await db<{ id: string }[]>`
    select id from keyhook.in_flight where org_id = ${org_id} and event_seq = ${seq}`) {
    await db`
      update keyhook.in_flight set id = ${olderId(id, ms)}, started_at = started_at - ${back}::interval where id = ${id}`
  }
}

/** Name of the partition for the week so many days ago: its Monday. */
export function partitionOf(daysAgo: number): string {
  const day = new Date(Date.now() - daysAgo * dayMs)
  day.setUTCDate(day.getUTCDate() - ((day.getUTCDay() + 6) % 7))
  return `attempts_${day.toISOString().slice(0, 10).replaceAll('-', '')}`
}

export const partitions = async (db: Database): Promise<string[]> => {
  const rows = await db<{ name: string }[]>`
    select inhrelid::regclass::text as name from pg_inherits where inhparent = 'keyhook.attempts'::regclass`
  return rows.map((row) => row.name.replace('keyhook.', '')).sort()
}
