import { expect, test } from 'vitest'
import { uuid7Floor } from '../../src/lib/ids.ts'
import { until } from '../kit/until.ts'
import { deliveryTest } from './support/delivery-test.ts'
import { receiverFor } from './support/receiver.ts'

type World = Awaited<ReturnType<typeof deliveryTest>>

/** Makes PostgreSQL reject inserts of attempts with this error, until `accept` is called. */
async function rejecting({ db }: World, code: string, condition = 'true') {
  await db`create sequence keyhook.rejections`
  await db.unsafe(`
    create function keyhook.reject() returns trigger language plpgsql as $$
    begin
      if ${condition} then
        perform nextval('keyhook.rejections');
        raise exception 'rejected by the test' using errcode = '${code}';
      end if;
      return new;
    end $$`)
  await db`create trigger reject before insert on keyhook.attempts for each row execute function keyhook.reject()`
  return {
    // A sequence is not rolled back.
    count: async () => Number((await db`select last_value from keyhook.rejections`)[0]!.last_value),
    accept: () => db`drop trigger reject on keyhook.attempts`,
  }
}

test.each(['53100', '40P01', '57014'])(
  'a transient error (%s) is retried, and the record keeps the whole response',
  async (code) => {
    const receiver = await receiverFor(() => ({ body: 'thank you' }))
    const world = await deliveryTest()
    await world.addWebhook(receiver.url)
    const rejections = await rejecting(world, code)
    await world.startDispatcher()
    await world.publishOne()
    // More often than a fixed number of retries would try.
    await until(async () => (await rejections.count()) >= 4)
    expect(await world.attempts()).toEqual([])
    await rejections.accept()
    await until(async () => (await world.attempts()).length === 1)
    expect((await world.attempts())[0]!.response_body).toBe('thank you')
  },
)

test('an attempt that cannot be stored does not block others', async () => {
  const receiver = await receiverFor(() => ({ body: 'thank you' }))
  const world = await deliveryTest()
  const [bad, good] = [await world.addWebhook(receiver.url), await world.addWebhook(receiver.url)]
  const [lane] = await world.db<{ lane_id: string }[]>`select lane_id from keyhook.webhooks where id = ${bad.id}`
  const rejections = await rejecting(world, '23514', `new.lane_id = ${lane!.lane_id} and new.event_seq = 1`)
  await world.startDispatcher()
  for (let i = 0; i < 5; i++) await world.publishOne()
  const recordedOf = async (id: string) => (await world.attempts()).filter((row) => row.webhook_id === id).length
  await until(async () => (await recordedOf(good.id)) === 5 && (await recordedOf(bad.id)) === 4)
  expect(await rejections.count()).toBeGreaterThan(0)
  await rejections.accept()
  await until(async () => (await recordedOf(bad.id)) === 5)
})

test('an attempt of a clock months ahead gets its partition, and does not block other lanes', async () => {
  const receiver = await receiverFor()
  const world = await deliveryTest()
  const early = await world.addWebhook(receiver.url)
  const other = await world.organization()
  await world.publishOne()
  const inTwoMonths = Date.now() + 60 * 86_400_000
  await world.db`
    with lane as (
      update keyhook.lanes set cursor_seq = 1, lease_owner = 'gone', due_at = now(), lease_token = 1
      where webhook_id = ${early.id} returning id, org_id
    )
    insert into keyhook.in_flight (lane_id, event_seq, org_id, id, lease_token, attempt, try, started_at)
    select id, 1, org_id, ${uuid7Floor(inTwoMonths)}, 1, 1, 0, ${new Date(inTwoMonths)} from lane`
  await world.addWebhook(receiver.url, { org: other })
  await world.startDispatcher()
  await world.publishOne(other)
  await until(async () => {
    const rows = await world.attempts()
    const interrupted = rows.filter((row) => row.status === 'interrupted' && row.webhook_id === early.id)
    const succeeded = rows.filter((row) => row.status === 'succeeded')
    return interrupted.length === 1 && succeeded.length === 2
  })
  expect(receiver.received.length).toBe(2)
})
