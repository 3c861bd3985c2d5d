import { expect, test } from 'vitest'
import { redeliver } from '../../src/delivery/redelivery-sql.ts'
import { fetchDue } from '../../src/delivery/statements/fetch.ts'
import { isLaneHeld, releaseLanes } from '../../src/delivery/statements/held-lanes.ts'
import { interruptAttempts, settleAttempts } from '../../src/delivery/statements/settle.ts'
import { uuid7 } from '../../src/lib/ids.ts'
import { deleteWebhook } from '../../src/webhooks/sql.ts'
import { holdOpen } from '../kit/hold-open.ts'
import { until } from '../kit/until.ts'
import { failedOutcome } from './support/delivery-test.ts'
import { begin, firstAttempt, lease, leasedLane, leaseMs, settleFailed } from './support/leased-lane.ts'

const nothing = { lanes: new Set(), begun: new Map() }

test('an attempt that was begun and never settled is interrupted by the next holder, however the lane became free', async () => {
  const { world, db, webhook, lane, held } = await leasedLane()
  const token = async () =>
    Number((await db<{ token: string }[]>`select lease_token as token from keyhook.lanes`)[0]!.token)
  const free: (() => Promise<unknown>)[] = [
    async () => releaseLanes(db, [{ ...held, token: await token(), abandon: true }]),
    () => db`update keyhook.lanes set due_at = now()`,
  ]
  let current = lane
  for (const [i, release] of free.entries()) {
    const attempt = { ...firstAttempt(current), attempt: i + 1 }
    expect((await begin(db, attempt)).begun).toEqual(new Map([[attempt.attemptId, 0]]))
    await release()
    current = (await lease(db, { owner: 'b' }))[0]!
    expect(await interruptAttempts(db, [current])).toEqual([lane.laneId])
    const [recorded] = await db`
      select id, status, error_code, request_headers, next_attempt_at from keyhook.attempts order by id desc limit 1`
    expect(recorded).toMatchObject({ id: attempt.attemptId, status: 'interrupted', request_headers: null })
    expect(recorded!.next_attempt_at).not.toBeNull()
    // Due at once, and the schedule has lost no try.
    expect(await db`select attempt, try from keyhook.retries where due_at <= now()`).toEqual([
      { attempt: i + 1, try: 0 },
    ])
    expect(await db`select from keyhook.in_flight`).toHaveLength(0)
  }
  // Of a deleted webhook the attempt is recorded, and not made again.
  const last = { ...firstAttempt(current), attempt: 3 }
  await begin(db, last)
  await db.begin((tx) => deleteWebhook(tx, world.orgId, webhook.id))
  await releaseLanes(db, [{ ...held, token: await token(), abandon: true }])
  expect(await interruptAttempts(db, await lease(db, { owner: 'c' }))).toEqual([lane.laneId])
  const [recorded] = await db`select status, next_attempt_at from keyhook.attempts where id = ${last.attemptId}`
  expect(recorded).toEqual({ status: 'interrupted', next_attempt_at: null })
  expect(await db`select from keyhook.retries`).toHaveLength(0)
})

test('interrupting leaves alone what the holder itself began, and does nothing for a lost or locked lane', async () => {
  const { db, lane, first, held } = await leasedLane()
  await begin(db, first)
  expect(await interruptAttempts(db, [held])).toEqual([lane.laneId])
  expect(await interruptAttempts(db, [{ ...held, token: held.token + 1 }])).toEqual([])
  const unlock = await holdOpen(db, (tx) => tx`select from keyhook.lanes for update`)
  expect(await interruptAttempts(db, [held])).toEqual([])
  await unlock()
  expect(await db`select id from keyhook.in_flight`).toEqual([{ id: first.attemptId }])
})

test('beginning an attempt extends the lease once half of it has passed', async () => {
  const { db, first, lane } = await leasedLane()
  const leftMs = async () => {
    const [row] = await db<{ ms: number }[]>`
      select (extract(epoch from due_at - now()) * 1000)::int as ms from keyhook.lanes`
    return row!.ms
  }
  await db`update keyhook.lanes set due_at = now() + interval '31 seconds'`
  await begin(db, first)
  expect(await leftMs()).toBeLessThan(32_000)
  await db`update keyhook.lanes set due_at = now() + interval '29 seconds'`
  await begin(db, firstAttempt(lane, 2))
  expect(await leftMs()).toBeGreaterThan(leaseMs - 5_000)
})

test('fetching reads due retries and first attempts in order, and each event once', async () => {
  const { world, db, lane, first } = await leasedLane()
  const ids = [await world.publishOne(), await world.publishOne()]
  await begin(db, first)
  await settleFailed(db, first)
  const request = {
    laneId: lane.laneId,
    orgId: world.orgId,
    afterSeq: 1,
    firstsMax: 10,
    retriesMax: 10,
    suspended: false,
  }
  const due = await fetchDue(db, [request])
  expect(due.map((one) => [one.eventSeq, one.attempts, one.tries])).toEqual([
    [1, 1, 1],
    [2, 0, 0],
    [3, 0, 0],
  ])
  expect(due[1]).toMatchObject({ laneId: lane.laneId, eventId: ids[0], eventType: 'database.created' })
  expect(JSON.parse(due[1]!.body.toString())).toMatchObject({ id: ids[0] })
  expect(Math.abs(due[1]!.publishedAtMs - Date.now())).toBeLessThan(60_000)
  const limited = await fetchDue(db, [{ ...request, firstsMax: 1, retriesMax: 0, suspended: false }])
  expect(limited.map((one) => one.eventSeq)).toEqual([2])
})

test('nothing begins in a lane whose webhook is deleted, whose lease is another, or that was released', async () => {
  const { world, db, webhook, first, held } = await leasedLane()
  expect(await begin(db, { ...first, token: first.token - 1 })).toEqual(nothing)
  await releaseLanes(db, [{ ...held, abandon: true }])
  expect(await begin(db, first)).toEqual(nothing)
  const [again] = await lease(db)
  expect(await isLaneHeld(db, again!)).toBe(true)
  await db.begin((tx) => deleteWebhook(tx, world.orgId, webhook.id))
  expect(await begin(db, { ...first, token: again!.token })).toEqual(nothing)
  expect(await isLaneHeld(db, again!)).toBe(false)
  expect(await db`select from keyhook.in_flight`).toHaveLength(0)
})

test('nothing begins while a deletion is not yet committed, and nothing after it', async () => {
  const { world, db, webhook, first } = await leasedLane()
  const commit = await holdOpen(db, (tx) => deleteWebhook(tx, world.orgId, webhook.id))
  expect(await begin(db, first)).toEqual(nothing)
  await commit()
  expect(await begin(db, first)).toEqual(nothing)
})

test('an attempt that is begun twice, after a lost connection, is begun once', async () => {
  const { db, first } = await leasedLane()
  const begun = new Map([[first.attemptId, 0]])
  expect((await begin(db, first)).begun).toEqual(begun)
  expect((await begin(db, first)).begun).toEqual(begun)
  expect(await db`select attempt from keyhook.in_flight`).toEqual([{ attempt: 1 }])
})

test('a statement that arrives late, from a connection that was given up, changes nothing', async () => {
  const { db, first, held } = await leasedLane()
  await begin(db, first)
  // Not released while an attempt is in flight.
  expect(await releaseLanes(db, [held])).toEqual([])
  await settleFailed(db, first)
  expect((await begin(db, first)).begun.size).toBe(0)
  const second = { ...first, attempt: 2, tries: 1, attemptId: uuid7(Date.now()) }
  expect((await begin(db, second)).begun).toEqual(new Map([[second.attemptId, 1]]))
  expect((await begin(db, first)).begun.size).toBe(0)
  await settleFailed(db, second)
  expect((await begin(db, second)).begun.size).toBe(0)
  expect(await db`select attempt, try from keyhook.retries`).toEqual([{ attempt: 2, try: 2 }])
  expect(await db`select from keyhook.in_flight`).toHaveLength(0)
})

test('only the holder settles, and each attempt once', async () => {
  const { db, first, lane } = await leasedLane()
  const unknown = firstAttempt(lane)
  await begin(db, first)
  expect(await settleFailed(db, { ...first, token: first.token - 1 })).toBe(0)
  expect(await settleFailed(db, unknown)).toBe(0)
  expect(await settleFailed(db, first)).toBe(1)
  expect(await settleFailed(db, first)).toBe(0)
  expect(await db`select id, status from keyhook.attempts`).toEqual([{ id: first.attemptId, status: 'failed' }])
})

test('settling waits for a locked row, so that no outcome is skipped', async () => {
  const { db, first } = await leasedLane()
  await begin(db, first)
  const unlock = await holdOpen(db, (tx) => tx`select from keyhook.in_flight for update`)
  const settling = settleFailed(db, first)
  await until(async () => (await db`select from pg_locks where not granted`).length > 0)
  await unlock()
  expect(await settling).toBe(1)
})

test('a redelivery that is requested after its retry was read starts the schedule again', async () => {
  const { world, db, webhook, first } = await leasedLane()
  await begin(db, first)
  await settleFailed(db, first)
  // The dispatcher has read the retry with one try; before it begins, a redelivery is requested.
  await db.begin((tx) => redeliver(tx, world.orgId, webhook.id, first.attemptId))
  const second = { ...first, attempt: 2, tries: 1, attemptId: uuid7(Date.now()) }
  expect((await begin(db, second)).begun).toEqual(new Map([[second.attemptId, 0]]))
})

test('an attempt during which the machine was suspended for hours can be stored', async () => {
  const { db, first } = await leasedLane()
  await begin(db, first)
  const hoursUs = 3 * 3_600_000_000
  const outcome = { ...failedOutcome, durationUs: hoursUs, firstByteUs: hoursUs, dnsUs: 5 }
  expect((await settleAttempts(db, [{ attempt: first, outcome, tries: 1, retryMs: null }])).recorded).toBe(1)
  expect(await db`select duration_us, first_byte_us, dns_us, tls_us from keyhook.attempts`).toEqual([
    { duration_us: 2 ** 31 - 1, first_byte_us: 2 ** 31 - 1, dns_us: 5, tls_us: null },
  ])
})

test('any text of a response is stored as it is', async () => {
  const { db, lane } = await leasedLane()
  const texts = ['', 'a,b', '{"x":"\\\\ \\" NULL"}', 'NULL', '\u001e\u001f\n\t', 'ü😀', "'; drop table x; --"]
  for (const [i, body] of texts.entries()) {
    const attempt = firstAttempt(lane, i + 1)
    await begin(db, attempt)
    const response = { status: 200, headers: `x: ${body}`, body, complete: i % 2 === 0 }
    const error = { code: 'timeout' as const, detail: body }
    const outcome = { ...failedOutcome, requestHeaders: body, response, error }
    expect((await settleAttempts(db, [{ attempt, outcome, tries: 1, retryMs: null }])).recorded).toBe(1)
  }
  const rows = await db`
    select request_headers, response_headers, response_body, response_complete, error_detail from keyhook.attempts order by event_seq`
  expect(rows).toEqual(
    texts.map((text, i) => ({
      request_headers: text,
      response_headers: `x: ${text}`,
      response_body: text,
      response_complete: i % 2 === 0,
      error_detail: text,
    })),
  )
})
