import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { publish } from '../../src/delivery/publish.ts'
import { readHeaders } from '../../src/delivery/sender/senders.ts'
import type { OrgId } from '../../src/lib/ids.ts'
import { until } from '../kit/until.ts'
import { deliveryTest } from './support/delivery-test.ts'
import { eventIdOf, type Reply, receiverFor } from './support/receiver.ts'

test('an event arrives at its webhook, and the attempt is on record', async () => {
  const receiver = await receiverFor()
  const world = await deliveryTest()
  const webhook = await world.addWebhook(receiver.url)
  await world.startDispatcher()
  const eventId = await world.publishOne()
  await until(() => receiver.received.length > 0)
  expect(eventIdOf(receiver.received[0]!)).toBe(eventId)
  const [attempt] = await until(async () => {
    const rows = await world.attempts()
    return rows.length > 0 && rows
  })
  expect(attempt).toMatchObject({
    webhook_id: webhook.id,
    status: 'succeeded',
    response_status: 200,
    response_body: 'ok',
    address: '127.0.0.1',
  })
  const sent = readHeaders(attempt!.request_headers)
  expect(sent['X-Service-Signature']).toBe(receiver.received[0]!.headers['x-service-signature'])
})

// Invariant 3. Seen to fail when requests leave while the begin statement is still running.
test('no request leaves before its attempt is on disk', async () => {
  const world = await deliveryTest()
  const seen: string[] = []
  const receiver = await receiverFor(async (request) => {
    // Another connection looks, while the request is being answered: what it sees is committed.
    const [row] = await world.db<{ event_id: string }[]>`
      select e.id as event_id from keyhook.in_flight s
      join keyhook.events e on e.org_id = s.org_id and e.seq = s.event_seq
      where e.id = ${eventIdOf(request)}`
    seen.push(row?.event_id ?? 'nothing')
    return {}
  })
  await world.addWebhook(receiver.url)
  await world.startDispatcher()
  const ids = []
  for (let i = 0; i < 20; i++) ids.push(await world.publishOne())
  await until(() => seen.length === 20)
  expect(seen.sort()).toEqual(ids.sort())
})

test('first attempts start in the order of the events', async () => {
  const receiver = await receiverFor()
  const world = await deliveryTest({ KEYHOOK_DELIVERY_PER_WEBHOOK_MAX: '1' })
  await world.addWebhook(receiver.url)
  const ids: string[] = []
  for (let i = 0; i < 60; i++) ids.push(await world.publishOne())
  await world.startDispatcher()
  await until(() => receiver.received.length === 60)
  expect(receiver.received.map(eventIdOf)).toEqual(ids)
})

test('a failed attempt is tried again on schedule, with the same event id, until the schedule is used up', async () => {
  const receiver = await receiverFor(() => ({ status: 503 }))
  const world = await deliveryTest()
  await world.addWebhook(receiver.url)
  await world.startDispatcher()
  const eventId = await world.publishOne()
  const rows = await until(async () => {
    const found = await world.attempts()
    return found.length === 3 && found
  })
  expect(receiver.received.map(eventIdOf)).toEqual([eventId, eventId, eventId])
  expect(rows.map((row) => [row.attempt, row.status, row.error_code])).toEqual([
    [1, 'failed', 'status_not_successful'],
    [2, 'failed', 'status_not_successful'],
    [3, 'failed', 'status_not_successful'],
  ])
  expect(rows.map((row) => row.next_attempt_at === null)).toEqual([false, false, true])
  await sleep(1_500)
  expect(receiver.received.length).toBe(3)
  expect(await world.db`select 1 from keyhook.retries`).toHaveLength(0)
})

test('410 ends the retries of that delivery, and Retry-After lengthens the wait', async () => {
  const receiver = await receiverFor((_request, count) =>
    count === 1 ? { status: 429, headers: { 'retry-after': '2' } } : { status: 410 },
  )
  const world = await deliveryTest({ KEYHOOK_DELIVERY_RETRY_SCHEDULE: '0s,1s,1s,1s,5s' })
  await world.addWebhook(receiver.url)
  await world.startDispatcher()
  await world.publishOne()
  await until(() => receiver.received.length === 2)
  expect(receiver.received[1]!.at - receiver.received[0]!.at).toBeGreaterThanOrEqual(1_900)
  await sleep(1_500)
  expect(receiver.received.length).toBe(2)
})

test('an event that is published while the lane is going idle is delivered at once', async () => {
  const receiver = await receiverFor()
  const world = await deliveryTest()
  await world.addWebhook(receiver.url)
  await world.startDispatcher()
  const ids: string[] = []
  // Each one right when the lane before it is being given back: the hints come at every moment of a lane's life.
  for (let i = 0; i < 150; i++) {
    ids.push(await world.publishOne())
    await sleep(i % 7)
  }
  await until(() => receiver.received.length >= 150)
  expect(new Set(receiver.received.map(eventIdOf))).toEqual(new Set(ids))
  expect(receiver.received.length).toBe(150)
})

test('a publisher whose transaction stays open delays only its own organization', async () => {
  const receiver = await receiverFor()
  const world = await deliveryTest()
  const other = await world.organization('Other')
  await world.addWebhook(receiver.url)
  await world.addWebhook(receiver.url, { org: other })
  await world.startDispatcher()
  let release = () => {}
  const held = new Promise<void>((done) => {
    release = done
  })
  const slow = world.transact(async (tx) => {
    await publish(tx, { orgId: world.orgId, type: 'database.created', data: { database_id: 'db_1', name: 'slow' } })
    await held
  })
  await world.publishOne(other)
  await until(() => receiver.received.length === 1)
  expect(JSON.parse(String(receiver.received[0]!.body)).data.name).toBe('main')
  release()
  await slow
  await until(() => receiver.received.length === 2)
})

// Invariant 6. Seen to fail when failures do not lower the concurrency of a lane.
test('a hanging receiver gets one connection and costs its neighbours nothing', async () => {
  const held: PromiseWithResolvers<Reply>[] = []
  const hanging = await receiverFor(() => {
    held.push(Promise.withResolvers<Reply>())
    return held.at(-1)!.promise
  })
  const healthy = await receiverFor()
  // Requests hang until the test ends them, however long the machine takes for the others.
  const world = await deliveryTest({ KEYHOOK_DELIVERY_TIMEOUT_MS: '60000', KEYHOOK_DELIVERY_RETRY_SCHEDULE: '0s' })
  const sick = await world.organization('Sick')
  await world.addWebhook(hanging.url, { org: sick })
  await world.addWebhook(healthy.url)
  const engine = await world.startDispatcher()
  for (let i = 0; i < 8; i++) await world.publishOne(sick)
  await until(() => hanging.received.length === 2)
  for (let i = 0; i < 50; i++) await world.publishOne()
  await until(() => healthy.received.length === 50)
  expect(hanging.received.length).toBe(2)
  // Two at first, and one once it is known to fail.
  for (const one of held.slice(0, 2)) one.resolve({ status: 503 })
  for (let n = 3; n <= 5; n++) {
    await until(() => hanging.received.length === n)
    await until(() => engine.inFlight === 1)
    held[n - 1]!.resolve({ status: 503 })
  }
  expect(hanging.atOnce).toBe(2)
})

test('a fast receiver gets many connections', async () => {
  const receiver = await receiverFor(() => ({ delayMs: 20 }))
  const world = await deliveryTest()
  await world.addWebhook(receiver.url)
  for (let i = 0; i < 200; i++) await world.publishOne()
  await world.startDispatcher()
  await until(() => receiver.received.length === 200)
  expect(receiver.atOnce).toBeGreaterThan(8)
  expect(receiver.atOnce).toBeLessThanOrEqual(32)
})

// Invariant 6. Seen to fail when lanes take turns without regard to their organization.
test('turns go to organizations first: one webhook gets as many as the twenty of another organization', async () => {
  const receiver = await receiverFor(() => ({ delayMs: 20 }))
  const world = await deliveryTest({ KEYHOOK_DELIVERY_IN_FLIGHT_MAX: '8' })
  const small: OrgId = await world.organization('Small')
  const smalls = await receiverFor(() => ({ delayMs: 20 }))
  for (let i = 0; i < 20; i++) await world.addWebhook(receiver.url)
  await world.addWebhook(smalls.url, { org: small })
  for (let i = 0; i < 10; i++) await world.publishOne()
  for (let i = 0; i < 30; i++) await world.publishOne(small)
  await world.startDispatcher()
  await until(() => smalls.received.length === 30)
  expect(receiver.received.length).toBeLessThan(100)
  await until(() => receiver.received.length === 200)
})

// Invariant 6. Seen to fail when lanes are leased only while requests may start.
test('with every place held by receivers that hang, the next free one goes to an organization that has none', async () => {
  const held: PromiseWithResolvers<Reply>[] = []
  const hanging = await receiverFor(() => {
    held.push(Promise.withResolvers<Reply>())
    return held.at(-1)!.promise
  })
  const healthy = await receiverFor()
  const world = await deliveryTest({
    KEYHOOK_DELIVERY_IN_FLIGHT_MAX: '4',
    KEYHOOK_DELIVERY_TIMEOUT_MS: '60000',
    KEYHOOK_DELIVERY_RETRY_SCHEDULE: '0s',
  })
  const sick = await world.organization('Sick')
  for (let i = 0; i < 12; i++) await world.addWebhook(hanging.url, { org: sick })
  const { id } = await world.addWebhook(healthy.url)
  for (let i = 0; i < 4; i++) await world.publishOne(sick)
  await world.startDispatcher()
  await until(() => hanging.received.length === 4)
  await world.publishOne()
  const leased = () =>
    world.db`
    select from keyhook.lanes where webhook_id = ${id} and lease_owner is not null`.then(({ length }) => length === 1)
  await until(leased)
  // One place after the other becomes free. Of 48 that wait before it, a few have been begun already.
  for (let freed = 0; healthy.received.length === 0 && freed < 48; freed++) {
    held[freed]!.resolve({ status: 503 })
    await until(() => healthy.received.length === 1 || hanging.received.length === 5 + freed)
  }
  expect(hanging.received.length).toBeLessThan(16)
})
