import { expect, test } from 'vitest'
import { compile } from '../../src/db/statement.ts'
import { countOutcomes, deliveriesCounted, listAttemptsOfEvent } from '../../src/delivery/history-sql.ts'
import { ensurePartitions } from '../../src/delivery/retention-sql.ts'
import { settleAttempts } from '../../src/delivery/statements/settle.ts'
import { uuid7 } from '../../src/lib/ids.ts'
import { deleteWebhook } from '../../src/webhooks/sql.ts'
import { scans } from '../kit/plans.ts'
import { deliveryTest, failedOutcome } from './support/delivery-test.ts'
import { begin, firstAttempt, lease, settleFailed, wake } from './support/leased-lane.ts'

type World = Awaited<ReturnType<typeof deliveryTest>>

const events = ({ db, orgId }: World) => db<{ sequence: string; created_at: Date }[]>`
  select sequence, created_at from keyhook.events where org_id = ${orgId} order by seq`

async function worldOf(webhooks: number): Promise<World> {
  const world = await deliveryTest()
  await ensurePartitions(world.db, Date.now())
  for (let i = 0; i < webhooks; i++) await world.addWebhook(`https://example.com/${i}`)
  return world
}

test('each delivery of an event is counted once, by how it stands', async () => {
  const world = await worldOf(7)
  const { db, orgId } = world
  await world.publishOne()
  const outcomes = async () => (await countOutcomes(db, orgId, await events(world))).get('1')
  const none = { succeeded: 0, failing: 0, failed: 0, waiting: 0, expired: 0 }
  expect(await outcomes()).toEqual({ ...none, waiting: 7 })

  await wake(db)
  const lanes = (await lease(db)).sort((a, b) => a.laneId - b.laneId)
  const [accepted, retried, over, inFlight, expired, , deleted] = lanes
  const started = [accepted, retried, over, inFlight, expired].map((lane) => firstAttempt(lane!))
  await begin(db, ...started)
  const succeeded = { ...failedOutcome, status: 'succeeded' } as const
  const settle = (attempt: (typeof started)[0]) =>
    settleAttempts(db, [{ attempt, outcome: succeeded, tries: 1, retryMs: null }])
  await settle(started[0]!)
  await settleFailed(db, started[1]!, 3_600_000)
  await settleFailed(db, started[2]!, null)
  await settle(started[4]!)
  await db`delete from keyhook.attempts where lane_id = ${expired!.laneId}`
  const [hook] = await db`select webhook_id from keyhook.lanes where id = ${deleted!.laneId}`
  await db.begin((tx) => deleteWebhook(tx, orgId, hook!.webhook_id))
  expect(await outcomes()).toEqual({ succeeded: 1, failing: 1, failed: 2, waiting: 2, expired: 1 })

  // The retry is in flight: it still fails until it succeeds.
  await db`update keyhook.retries set due_at = now()`
  const retry = { ...firstAttempt(retried!), attempt: 2, tries: 1 }
  await begin(db, retry)
  expect(await outcomes()).toMatchObject({ failing: 1, waiting: 2 })
  await settle(retry)
  expect(await outcomes()).toEqual({ succeeded: 2, failing: 0, failed: 2, waiting: 2, expired: 1 })
})

test('an event for more webhooks than are counted is left out, one for none is all zeros', async () => {
  const world = await worldOf(1)
  const { db, orgId } = world
  await world.publishOne()
  await world.publishOne()
  await db`delete from keyhook.deliveries where event_seq = 2`
  // Deliveries need a lane each.
  await db`
    with webhook as (
      insert into keyhook.webhooks (org_id, id, url, event_types, secret_key_id, secret_box, created_by)
      select ${orgId}, 'wh_' || lpad(n::text, 26, '0'), 'https://example.com', '{invoice.paid}', 'k', '\\x00', created_by
      from keyhook.webhooks, generate_series(1, ${deliveriesCounted}::int) n
      returning lane_id, id
    ), lane as (
      insert into keyhook.lanes (id, org_id, webhook_id) select lane_id, ${orgId}, id from webhook
    )
    insert into keyhook.deliveries (org_id, event_seq, lane_id) select ${orgId}, 1, lane_id from webhook`
  const found = await countOutcomes(db, orgId, await events(world))
  expect([...found]).toEqual([['2', { succeeded: 0, failing: 0, failed: 0, waiting: 0, expired: 0 }]])
})

test('outcomes of a page and the attempts of an event cost one look-up per delivery, however long the history of its webhooks is', async () => {
  const world = await worldOf(3)
  const { db, orgId } = world
  const days = 40
  for (let day = 0; day < days; day++) await ensurePartitions(db, Date.now() - day * 86_400_000)
  const count = 3_000
  await db`
    insert into keyhook.events (org_id, seq, sequence, id, type, body)
    select ${orgId}, n, n, 'e-' || n, 'database.created', '{}' from generate_series(1, ${count}::int) n`
  const lanes = (await db<{ id: string }[]>`select id from keyhook.lanes order by id`).map(({ id }) => id)
  for (const lane of lanes) {
    const ids = Array.from({ length: count }, () => uuid7(Date.now()))
    await db`
      insert into keyhook.deliveries (org_id, event_seq, lane_id) select ${orgId}, n, ${lane} from generate_series(1, ${count}::int) n`
    await db`
      insert into keyhook.attempts (lane_id, id, org_id, event_seq, attempt, status, started_at)
      select ${lane}, a.id, ${orgId}, a.n, 1, 'succeeded', now() from unnest(${ids}::uuid[]) with ordinality as a (id, n)`
    // Other deliveries of the webhook wait, and some are in flight.
    await db`
      insert into keyhook.retries (lane_id, event_seq, org_id, due_at, attempt, try)
      select ${lane}, n, ${orgId}, now(), 1, 1 from generate_series(100000, ${100_000 + count}::int) n`
    await db`
      insert into keyhook.in_flight (lane_id, event_seq, org_id, id, lease_token, attempt, try, started_at)
      select ${lane}, 200000 + a.n, ${orgId}, a.id, 1, 1, 0, now() from unnest(${ids}::uuid[]) with ordinality as a (id, n)`
  }
  const page = (await events(world)).slice(-50)
  expect([...(await countOutcomes(db, orgId, page)).values()]).toEqual(
    page.map(() => ({ succeeded: 3, failing: 0, failed: 0, waiting: 0, expired: 0 })),
  )
  for (const when of ['without statistics', 'with statistics']) {
    if (when === 'with statistics') await db`analyze`
    let read = 0
    // The statement that the function would run, explained.
    const explained = ((strings: TemplateStringsArray, ...values: unknown[]) => {
      const { text, values: parameters } = compile(db(strings, ...(values as string[])))
      return db.unsafe(`explain (analyze, format json) ${text}`, parameters as string[]).then(([row]) => {
        read = scans(row!['QUERY PLAN'][0].Plan).reduce((sum, one) => sum + one.rows, 0)
        return []
      })
    }) as unknown as typeof db
    await countOutcomes(explained, orgId, page)
    // Of each event its number, row and deliveries; of each delivery its lane and attempt.
    expect(read, when).toBeLessThan(50 * (2 + 3 * 3) + 100)
    expect(read, when).toBeGreaterThan(50)
    await listAttemptsOfEvent(explained, orgId, { seq: String(count), lanes })
    expect(read, when).toBeLessThan(20)
    expect(read, when).toBeGreaterThanOrEqual(3)
  }
})
