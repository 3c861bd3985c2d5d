import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import type { NewEvent } from '../../src/delivery/events.ts'
import { publish, publishBatch, publishSample } from '../../src/delivery/publish.ts'
import { until } from '../kit/until.ts'
import { deliveryTest } from './support/delivery-test.ts'
import { receiverFor } from './support/receiver.ts'

type World = Awaited<ReturnType<typeof deliveryTest>>

const created = (world: World): NewEvent => ({
  orgId: world.orgId,
  type: 'database.created',
  data: { database_id: 'db_1', name: 'main' },
})
const paid = (world: World): NewEvent => ({
  orgId: world.orgId,
  type: 'invoice.paid',
  data: { invoice_id: 'inv_1', month: '2026-01', currency: 'EUR', total_minor: 1, paid_at: '2026-02-01T00:00:00.000Z' },
})
const numbersOf = async ({ db }: World, webhookId: string) =>
  db`
    select d.sequence::int, d.previous_sequence::int as previous from keyhook.deliveries d join keyhook.lanes l on l.id = d.lane_id
    where l.webhook_id = ${webhookId} order by d.event_seq`
const sequences = async ({ db }: World) =>
  (await db<{ sequence: number | null }[]>`select sequence::int from keyhook.events order by seq`).map(
    (row) => row.sequence,
  )

test('events are numbered without a gap, and test events have no number', async () => {
  const world = await deliveryTest()
  const { orgId, transact } = world
  const webhook = await world.addWebhook('https://example.com/')
  await transact((tx) => publish(tx, created(world)))
  const sample = { type: 'invoice.paid', data: {} } as const
  await transact((tx) => publishSample(tx, { orgId, webhookId: webhook.id }, sample))
  const rolledBack = transact(async (tx) => {
    await publish(tx, created(world))
    throw new Error('not this one')
  })
  await expect(rolledBack).rejects.toThrow('not this one')
  await transact((tx) => publish(tx, paid(world)))
  const named = { orgId, id: 'a', isNamed: true, type: 'invoice.paid', body: '{}' } as const
  expect(await publishBatch(world.db, { events: [named], entries: [] })).toEqual([])
  expect(await publishBatch(world.db, { events: [named], entries: [] })).toEqual([named])
  await transact((tx) => publish(tx, created(world)))
  expect(await sequences(world)).toEqual([1, null, 2, 3, 4])
})

test('only the counter is given up after 20 ms, and not what the inserts wait for', async () => {
  const { db, orgId, addWebhook } = await deliveryTest()
  await addWebhook('https://example.com/')
  const event = { orgId, id: 'a', isNamed: false, type: 'invoice.paid', body: '{}' } as const
  const held = await db.reserve()
  onTestFinished(() => held.release())
  await held`begin`
  // Stands for the lock by which a growing table is extended, which large batches wait for.
  await held`lock table keyhook.events in share mode`
  const published = publishBatch(db, { events: [event], entries: [] })
  published.catch(() => {})
  await sleep(200)
  await held`commit`
  expect(await published).toEqual([])
})

test('a delivery names the event that was published to its webhook before it, past test events and other types', async () => {
  const world = await deliveryTest()
  const { orgId, transact } = world
  const [all, few] = [
    await world.addWebhook('https://example.com/a', { types: ['database.created', 'invoice.paid'] }),
    await world.addWebhook('https://example.com/b', { types: ['invoice.paid'] }),
  ]
  const send = (event: NewEvent) => transact((tx) => publish(tx, event))
  await send(created(world))
  await send(paid(world))
  await send(created(world))
  await transact((tx) => publishSample(tx, { orgId, webhookId: few.id }, { type: 'invoice.paid', data: {} }))
  // Three in one batch: of one webhook the first and the last.
  const types = ['invoice.paid', 'database.created', 'invoice.paid'] as const
  const events = types.map((type, i) => ({ orgId, id: `batch-${i}`, isNamed: false, type, body: '{}' }))
  await publishBatch(world.db, { events, entries: [] })
  expect(await numbersOf(world, all.id)).toEqual([
    { sequence: 1, previous: null },
    ...[2, 3, 4, 5, 6].map((sequence) => ({ sequence, previous: sequence - 1 })),
  ])
  expect(await numbersOf(world, few.id)).toEqual([
    { sequence: 2, previous: null },
    { sequence: null, previous: 2 },
    { sequence: 4, previous: 2 },
    { sequence: 6, previous: 4 },
  ])
})

// Seen to fail when a test event is published by one statement: its snapshot is older than the lock that it waits for.
test('a test event beside many publishers leaves no wrong number behind', async () => {
  const world = await deliveryTest()
  const { orgId, transact } = world
  const webhook = await world.addWebhook('https://example.com/')
  const sample = { type: 'invoice.paid', data: {} } as const
  const publisher = async () => {
    for (let i = 0; i < 10; i++) await transact((tx) => publish(tx, created(world)))
  }
  const tester = async () => {
    for (let i = 0; i < 10; i++) await transact((tx) => publishSample(tx, { orgId, webhookId: webhook.id }, sample))
  }
  await Promise.all([publisher(), tester(), publisher(), tester()])
  const real = (await numbersOf(world, webhook.id)).filter((row) => row.sequence !== null)
  expect(real).toEqual(Array.from({ length: 20 }, (_, i) => ({ sequence: i + 1, previous: i === 0 ? null : i })))
})

test('every attempt carries both numbers and is recorded with them; a test event carries none', async () => {
  const world = await deliveryTest()
  const { orgId, transact } = world
  const receiver = await receiverFor((_request, count) => ({ status: count === 2 ? 500 : 200 }))
  const { id: webhookId } = await world.addWebhook(receiver.url)
  await world.startDispatcher()
  await transact((tx) => publish(tx, created(world)))
  await until(() => receiver.received.length === 1)
  await transact((tx) => publish(tx, created(world)))
  await until(() => receiver.received.length === 3)
  await transact((tx) => publishSample(tx, { orgId, webhookId }, { type: 'invoice.paid', data: {} }))
  await until(() => receiver.received.length === 4)
  const numbers = receiver.received.map(({ headers }) => [
    headers['x-service-sequence'],
    headers['x-service-previous-sequence'],
  ])
  expect(numbers).toEqual([
    ['1', undefined],
    ['2', '1'],
    ['2', '1'],
    [undefined, undefined],
  ])
  const recorded = await until(async () => {
    const rows = await world.attempts()
    return rows.length === 4 && rows.map((row) => /X-Service-Previous-Sequence: (\d+)/.exec(row.request_headers)?.[1])
  })
  expect(recorded).toEqual([undefined, '1', '1', undefined])
})
