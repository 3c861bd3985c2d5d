import { type Database, isUnavailable } from '../../../src/db/database.ts'
import { readHeaders } from '../../../src/delivery/sender/senders.ts'
import { until } from '../../kit/until.ts'
import { deliveryOf, type Stored } from './history.ts'

/** On a slow machine Patroni may replace its primary once more, at any time. */
export const whenAvailable = <T>(work: () => Promise<T>): Promise<T> =>
  until(() =>
    work().catch((error: unknown) => {
      if (isUnavailable(error)) return null
      throw error
    }),
  ) as Promise<T>

/** Waits until nothing is in flight, waiting for a retry, or not yet begun. */
export const untilSettled = (db: Database): Promise<boolean> =>
  until(async () => {
    const left = await whenAvailable(
      () => db`
          select 1 from keyhook.in_flight union all select 1 from keyhook.retries
          union all select 1 from keyhook.wakes union all select 1 from keyhook.lanes where cursor_seq < head_seq limit 1`,
    )
    return left.length === 0
  })

/** What the tables say. */
export async function readStored(db: Database, webhooks: Stored['webhooks']): Promise<Stored> {
  const orgIds = [...new Set(webhooks.map(({ orgId }) => orgId))]
  const events = await db<{ org_id: string; id: string; sequence: number }[]>`
    select org_id, id, sequence::int from keyhook.events where org_id = any (${orgIds}::text[])`
  const attempts = await db<
    { webhook: string; event_id: string; attempt: number; headers: string | null; started_at: Date }[]
  >`
    select split_part(w.url, 'webhook=', 2) as webhook, e.id as event_id, a.attempt, a.request_headers as headers, a.started_at
    from keyhook.attempts a
    join keyhook.webhooks w on w.lane_id = a.lane_id
    join keyhook.events e on e.org_id = a.org_id and e.seq = a.event_seq`
  return {
    webhooks,
    events: events.map(({ org_id, id, sequence }) => ({ orgId: org_id, id, sequence })),
    attempts: attempts.map(({ webhook, event_id, attempt, headers, started_at }) => ({
      delivery: deliveryOf(webhook, event_id),
      attempt,
      signature: headers === null ? null : String(readHeaders(headers)['webhook-signature']),
      timestamp: String(Math.floor(started_at.getTime() / 1_000)),
    })),
  }
}
