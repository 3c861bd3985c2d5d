import { expect, onTestFinished, test, vi } from 'vitest'
import { createMasterKeys } from '../../src/kernel/master-keys.ts'
import { uuid7Floor } from '../../src/kernel/uuid7.ts'
import type { LeasedLane } from '../../src/store/delivery/lanes.ts'
import { createRequestHeaders } from '../../src/webhooks/sending/request.ts'
import { createSenders } from '../../src/webhooks/sending/senders.ts'
import { deliveryTest, until } from './support/delivery-test.ts'
import { receiverFor } from './support/receiver.ts'
import { connectWith, limits } from './support/sender.ts'

type World = Awaited<ReturnType<typeof deliveryTest>>

/** PostgreSQL answers attempts that are to be stored with this error, until told otherwise. */
async function refusing({ db }: World, code: string, condition = 'true') {
  await db`create sequence keyhook.refusals`
  await db.unsafe(`
    create function keyhook.refuse() returns trigger language plpgsql as $$
    begin
      if ${condition} then
        perform nextval('keyhook.refusals');
        raise exception 'refused by the test' using errcode = '${code}';
      end if;
      return new;
    end $$`)
  await db`create trigger refuse before insert on keyhook.attempts for each row execute function keyhook.refuse()`
  return {
    // A sequence counts on when everything else is taken back.
    count: async () => Number((await db`select last_value from keyhook.refusals`)[0]!.last_value),
    relent: () => db`drop trigger refuse on keyhook.attempts`,
  }
}

test.each(['53100', '40P01', '57014'])('what passes (%s) costs no record a word of its receiver', async (code) => {
  const receiver = await receiverFor(() => ({ body: 'thank you' }))
  const world = await deliveryTest()
  await world.addWebhook(receiver.url)
  const refusals = await refusing(world, code)
  await world.startDispatcher()
  await world.publishOne()
  // Often enough that whoever gives up after a few would have.
  await until(async () => (await refusals.count()) >= 4)
  expect(await world.attempts()).toEqual([])
  await refusals.relent()
  await until(async () => (await world.attempts()).length === 1)
  expect((await world.attempts())[0]!.response_body).toBe('thank you')
})

test('an attempt that can never be stored holds up nothing but itself', async () => {
  const receiver = await receiverFor(() => ({ body: 'thank you' }))
  const world = await deliveryTest()
  const [bad, good] = [await world.addWebhook(receiver.url), await world.addWebhook(receiver.url)]
  const [lane] = await world.db<{ lane_id: string }[]>`select lane_id from keyhook.webhooks where id = ${bad.id}`
  const refusals = await refusing(world, '23514', `new.lane_id = ${lane!.lane_id} and new.event_seq = 1`)
  await world.startDispatcher()
  for (let i = 0; i < 5; i++) await world.publishOne()
  const recordedOf = async (id: string) => (await world.attempts()).filter((row) => row.webhook_id === id).length
  await until(async () => (await recordedOf(good.id)) === 5 && (await recordedOf(bad.id)) === 4)
  await refusals.relent()
  await until(async () => (await recordedOf(bad.id)) === 5)
})

test('an attempt that was begun by a clock months ahead finds its week, and keeps no other lane waiting', async () => {
  const receiver = await receiverFor()
  const world = await deliveryTest()
  const early = await world.addWebhook(receiver.url)
  const other = await world.organization()
  await world.publishOne()
  const inTwoMonths = Date.now() + 60 * 86_400_000
  const begun = `1 1 0 ${inTwoMonths} ${uuid7Floor(inTwoMonths)}`
  await world.db`
    update keyhook.lanes
    set cursor_seq = 1, lease_owner = 'gone', due_at = now(), lease_token = 1, begun = ${begun}
    where webhook_id = ${early.id}`
  await world.addWebhook(receiver.url, { org: other })
  await world.startDispatcher()
  await world.publishOne(other)
  await until(async () => {
    const rows = await world.attempts()
    const interrupted = rows.filter((row) => row.status === 'interrupted' && row.webhook_id === early.id)
    const succeeded = rows.filter((row) => row.status === 'succeeded')
    return interrupted.length === 1 && succeeded.length === 2
  })
})

function sendersTest(now = () => 0) {
  const masterKeys = createMasterKeys([Buffer.alloc(32, 7)])
  const senders = createSenders({
    masterKeys,
    connect: connectWith(),
    limits,
    idleMax: 100,
    requestHeaders: createRequestHeaders({ serviceName: 'Service', standardWebhooks: false }),
    now,
    onUnreadable() {},
  })
  const secret = `whsec_${Buffer.alloc(32, 3).toString('base64')}`
  return {
    senders,
    open(laneId: number, webhookId: string, url: string) {
      const webhook = { url, secret: masterKeys.seal(secret, webhookId) }
      return senders.open({ laneId, webhookId, webhook } as unknown as LeasedLane)!
    },
  }
}

const atOnce = { overMs: Number.POSITIVE_INFINITY, mayGo: async () => true }

test('a lane whose number was that of a webhook which a failover lost reaches its own receiver', async () => {
  const { senders, open } = sendersTest()
  onTestFinished(() => senders.close())
  const [lost, own] = [await receiverFor(), await receiverFor()]
  for (const [id, url] of [
    ['wh_lost', lost.url],
    ['wh_own', own.url],
  ] as const) {
    const sender = open(1, id, url)
    await new Promise((done) => sender.send([], Buffer.from('{}'), done, atOnce))
  }
  expect([lost.received.length, own.received.length]).toEqual([1, 1])
})

test('a lane that is held for minutes with nothing to send goes on keeping its connections', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  const receiver = await receiverFor()
  let nowMs = 0
  const { senders, open } = sendersTest(() => nowMs)
  const sender = open(1, 'wh_one', receiver.url)
  const send = () => new Promise((done) => sender.send([], Buffer.from('{}'), done, atOnce))
  try {
    await send()
    await send()
    expect(receiver.connections).toBe(1)
    nowMs = 120_000
    vi.advanceTimersByTime(120_000)
    for (let i = 0; i < 5; i++) await send()
    expect(receiver.connections).toBe(2)
  } finally {
    senders.close()
    vi.useRealTimers()
  }
})
