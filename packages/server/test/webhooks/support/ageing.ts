import type { Database } from '../../../src/db/database.ts'
import { uuid7Floor } from '../../../src/kernel/uuid7.ts'
import { ensurePartitions } from '../../../src/store/delivery/partitions.ts'

const dayMs = 86_400_000

const aged = (uuid: string, ms: number) => {
  const was = Number.parseInt(uuid.slice(0, 8) + uuid.slice(9, 13), 16)
  return uuid7Floor(was - ms).slice(0, 13) + uuid.slice(13)
}

/** What a lane lists as begun, so many days earlier. */
export const agedList = (begun: string, days: number): string =>
  begun.replace(/(\d+) (\S+)$/gm, (_line, ms, id) => `${Number(ms) - days * dayMs} ${aged(id, days * dayMs)}`)

/** Makes an event and all that was done about it so many days older, as if the clock had gone on since. */
export async function age(db: Database, eventId: string, days: number): Promise<void> {
  const ms = days * dayMs
  const back = `${ms} milliseconds`
  await ensurePartitions(db, Date.now() - ms)
  const [event] = await db<{ org_id: string; seq: string }[]>`
    update keyhook.events set created_at = created_at - ${back}::interval where id = ${eventId} returning org_id, seq`
  const { org_id, seq } = event!
  // In that time lanes with nothing on its way were given back.
  await db`
    update keyhook.lanes l set begun = null
    where org_id = ${org_id} and not exists (select 1 from keyhook.in_flight s where s.lane_id = l.id)`
  for (const { id } of await db<{ id: string }[]>`
    select id from keyhook.attempts where org_id = ${org_id} and event_seq = ${seq}`) {
    await db`
      update keyhook.attempts set id = ${aged(id, ms)}, started_at = started_at - ${back}::interval where id = ${id}`
  }
  for (const { lane_id, id, started_ms } of await db<{ lane_id: string; id: string; started_ms: string }[]>`
    select lane_id, id, (extract(epoch from started_at) * 1000)::bigint as started_ms
    from keyhook.in_flight where org_id = ${org_id} and event_seq = ${seq}`) {
    await db`
      update keyhook.lanes
      set begun = replace(replace(begun, ${id}, ${aged(id, ms)}), ${started_ms}, ${String(Number(started_ms) - ms)})
      where id = ${lane_id}`
  }
}

/** Monday of the week that was so many days ago, as partitions are named. */
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
