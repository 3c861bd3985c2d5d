import { expect, test } from 'vitest'
import { redeliver } from '../../src/delivery/redelivery-sql.ts'
import { ensurePartitions } from '../../src/delivery/retention-sql.ts'
import type { WebhookId } from '../../src/lib/ids.ts'
import { uuid7 } from '../../src/lib/ids.ts'
import { call } from '../kit/client.ts'
import { holdOpen } from '../kit/hold-open.ts'
import { bridgeTo, serve } from '../kit/processes.ts'
import { until } from '../kit/until.ts'
import { deliveryEnvironment, deliveryTest } from './support/delivery-test.ts'
import { begin, leasedLane, settleFailed } from './support/leased-lane.ts'
import { eventIdOf, receiverFor } from './support/receiver.ts'
import '../kit/server-limits.ts'

const masterKey = Buffer.alloc(32, 5).toString('base64')
/** More than two steps of a recovery. */
const failures = 1_050
const gate = 4_711

type World = Awaited<ReturnType<typeof deliveryTest>>

/** Deliveries whose schedule ended without success, as after a receiver's outage of a day. */
async function failedDeliveries({ db, orgId }: World): Promise<void> {
  await ensurePartitions(db, Date.now())
  await db`
    insert into keyhook.events (org_id, seq, sequence, id, type, body)
    select ${orgId}, n, n, 'e-' || n, 'database.created', '{"id":"e-' || n || '"}' from generate_series(1, ${failures}) n`
  await db`insert into keyhook.event_counters values (${orgId}, ${failures}, ${failures})`
  await db`
    insert into keyhook.deliveries (org_id, event_seq, lane_id) select ${orgId}, n, l.id from keyhook.lanes l, generate_series(1, ${failures}) n`
  await db`update keyhook.lanes set head_seq = ${failures}, cursor_seq = ${failures}`
  const ids = Array.from({ length: failures }, () => uuid7(Date.now()))
  await db`
    insert into keyhook.attempts (org_id, lane_id, id, event_seq, attempt, status, started_at, request_headers)
    select ${orgId}, l.id, i.id, i.n, 1, 'failed', now(), '{}'
    from keyhook.lanes l, unnest(${ids}::uuid[]) with ordinality as i (id, n)`
}

// Fails when a step does not store how far it came.
test('a recovery that is killed half-way continues after the restart and sends everything exactly once more', async () => {
  const world = await deliveryTest({ KEYHOOK_MASTER_KEY: masterKey })
  const receiver = await receiverFor((request) => ({ status: eventIdOf(request) === 'e-7' ? 500 : 200 }))
  const webhook = await world.addWebhook(receiver.url)
  await failedDeliveries(world)
  // The second step waits at its end, with everything written and nothing committed.
  await world.db.unsafe(`
    create function gate() returns trigger language plpgsql as $$ begin
      if new.redelivered > 500 then perform pg_advisory_xact_lock(${gate}); end if;
      return new;
    end $$;
    create trigger gate before update on keyhook.recoveries for each row execute function gate()`)
  const open = await holdOpen(world.db, (tx) => tx`select pg_advisory_xact_lock(${gate})`)
  const bridge = await bridgeTo(world.target)
  const environment = {
    ...deliveryEnvironment,
    KEYHOOK_DELIVERY_RETRY_SCHEDULE: '0s',
    KEYHOOK_MASTER_KEY: masterKey,
    DATABASE_URL: bridge.url,
    KEYHOOK_LOG_LEVEL: 'silent',
  }
  const victim = await serve(environment)
  const path = `/platform/v1/organizations/${world.orgId}/webhooks/${webhook.id}`
  const since = new Date(Date.now() - 60_000).toISOString()
  const asked = await call<{ id: string; matching: number }>(`${victim.url}${path}/recover`, {
    token: world.owner.token,
    body: { since },
  })
  expect([asked.status, asked.body.matching]).toEqual([202, failures])
  await until(async () => {
    const [row] = await world.db`
      select count(*)::int as n from pg_locks where locktype = 'advisory' and objid = ${gate} and not granted`
    return row!.n === 1
  })
  victim.child.kill('SIGKILL')
  const job = async () => (await world.db`select redelivered::int, finished_at from keyhook.recoveries`)[0]!
  expect(await job()).toEqual({ redelivered: 500, finished_at: null })
  await open()
  await world.db.unsafe('drop trigger gate on keyhook.recoveries')

  const successor = await serve(environment)
  const shown = () =>
    call<{ status: string; redelivered: number }>(`${successor.url}${path}/recoveries/${asked.body.id}`, {
      token: world.owner.token,
    })
  await until(async () => (await shown()).body.status === 'finished')
  expect((await shown()).body.redelivered).toBe(failures)
  await until(
    async () =>
      (await world.db`select event_seq from keyhook.in_flight union select event_seq from keyhook.retries`).length ===
      0,
  )
  const again = await world.db<{ id: string; outcomes: string[] }[]>`
    select e.id, array_agg(a.status order by a.attempt) as outcomes from keyhook.attempts a
    join keyhook.events e on e.org_id = a.org_id and e.seq = a.event_seq
    where a.attempt > 1 group by e.id`
  expect(again.length).toBe(failures)
  for (const { id, outcomes } of again) {
    // The kill interrupts some attempts. Apart from these there is one each.
    expect(
      outcomes.filter((one) => one !== 'interrupted'),
      id,
    ).toEqual([id === 'e-7' ? 'failed' : 'succeeded'])
  }
})

// Fails when the retry is written first: the two would wait for each other, and PostgreSQL would end one of them.
test('a redelivery request locks the lane before the retry, as beginning an attempt does', async () => {
  const { world, db, webhook, first } = await leasedLane()
  await begin(db, first)
  await settleFailed(db, first)
  let requested = Promise.resolve('')
  await db.begin(async (tx) => {
    await tx`select from keyhook.lanes for no key update`
    requested = db.begin((other) => redeliver(other, world.orgId, webhook.id, first.attemptId))
    await until(async () => (await db`select from pg_locks where not granted`).length > 0)
    await tx`set local lock_timeout = '2s'`
    await tx`update keyhook.retries set due_at = due_at`
  })
  expect(await requested).toBe('requested')
})

test('a redelivery request is refused while an attempt is in flight, and for an attempt of another webhook', async () => {
  const { world, db, webhook, first } = await leasedLane()
  const other = await world.addWebhook('https://example.com/')
  const request = (webhookId: WebhookId) => db.begin((tx) => redeliver(tx, world.orgId, webhookId, first.attemptId))
  expect(await request(webhook.id)).toBe('not_found')
  await begin(db, first)
  expect(await request(webhook.id)).toBe('in_flight')
  expect(await request(other.id)).toBe('not_found')
  await settleFailed(db, first, null)
  expect(await request(webhook.id)).toBe('requested')
  expect(await db`select attempt, try from keyhook.retries where due_at <= now()`).toEqual([{ attempt: 1, try: 0 }])
})
