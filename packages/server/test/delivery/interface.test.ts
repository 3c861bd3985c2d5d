import { expect, test } from 'vitest'
import { uuid7 } from '../../src/lib/ids.ts'
import { removeUser } from '../../src/organizations/rules.ts'
import { call } from '../kit/client.ts'
import { testOperator } from '../kit/installation.ts'
import { until } from '../kit/until.ts'
import {
  api,
  created,
  type Delivery,
  member,
  operatorToken,
  orgId,
  owner,
  platform,
  published,
  report,
  settledHistory,
  webhookTo,
} from './support/delivering-api.ts'
import type { Reply } from './support/receiver.ts'

test('a reported event arrives, and its attempt shows what was sent and answered', async () => {
  const { receiver, deliveries } = await webhookTo(() => ({ body: 'thanks', headers: { 'x-theirs': 'yes' } }))
  const { status, body } = await report(created())
  expect(status).toBe(202)
  const [delivery] = await settledHistory(deliveries, 1)
  expect(Object.keys(delivery!)).toEqual([
    'id',
    'event_id',
    'event_type',
    'attempt',
    'status',
    'started_at',
    'duration_ms',
    'request',
    'response',
    'error',
    'next_attempt_at',
  ])
  expect(delivery).toMatchObject({
    event_id: body.id,
    attempt: 1,
    status: 'succeeded',
    request: { url: receiver.url, address: '127.0.0.1' },
    response: { status: 200, body: 'thanks', headers: { 'x-theirs': 'yes' } },
    error: null,
    next_attempt_at: null,
  })
  const arrived = receiver.received[0]!.headers
  expect(delivery!.request.headers['X-Service-Signature']).toBe(arrived['x-service-signature'])
  expect(delivery!.request.timings.tls_ms).toBeGreaterThan(0)
})

test('numbers arrive digit for digit as they were reported, and reported again they are the same event', async () => {
  const { receiver } = await webhookTo()
  const data = '{"total":12345678901234567890,"rate":1e400,"cold":-0,"plain":1.5}'
  const raw = `{"organization_id":"${orgId}","type":"database.created","data":${data},"id":"exact"}`
  const reportRaw = (text: string) => call(`${api.url}/operator/v1/events`, { token: operatorToken, raw: text })
  expect((await reportRaw(raw)).status).toBe(202)
  expect((await reportRaw(raw)).status).toBe(202)
  expect((await reportRaw(raw.replace('7890,', '7891,'))).status).toBe(409)
  await until(() => receiver.received.length === 1)
  expect(receiver.received[0]!.body.toString()).toContain(`"data":${data}`)
  // The parser that keeps numbers as they are has a limit of depth.
  const deep = `${'['.repeat(20_000)}1.0${']'.repeat(20_000)}`
  const refused = await reportRaw(`{"organization_id":"${orgId}","type":"invoice.paid","data":{"deep":${deep}}}`)
  expect([refused.status, refused.body]).toMatchObject([400, { detail: 'The body is nested too deeply.' }])
})

// The parser represents such a number by an object, which must not pass for one.
test.each(['1.0', '-0', '1e400', '12345678901234567890'])(
  'data that is the number %s is rejected like any other number',
  async (number) => {
    const event = `{"organization_id":"${orgId}","type":"invoice.paid","data":${number}}`
    for (const [raw, pointer] of [
      [event, '/data'],
      [`[${event}]`, '/0/data'],
      [number, ''],
      [`[${number}]`, '/0'],
    ] as const) {
      const refused = await call(`${api.url}/operator/v1/events`, { token: operatorToken, raw })
      expect([refused.status, refused.body]).toMatchObject([
        422,
        { errors: [{ pointer, detail: 'must be a JSON object' }] },
      ])
    }
  },
)

// Without a limit, 3,000 levels were accepted and could not be compared when they were reported again.
test('data of more than 200 levels is rejected; whatever is accepted can be reported again', async () => {
  const nested = (levels: number) => JSON.parse(`${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}`)
  const reportLevels = async (levels: number) => (await report(created(`levels-${levels}`, nested(levels)))).status
  expect([await reportLevels(200), await reportLevels(200)]).toEqual([202, 202])
  expect(await reportLevels(201)).toBe(422)
  // The parser itself fails where the stack is too small.
  expect([400, 422]).toContain(await reportLevels(3_000))
  const refused = await report(created('levels', nested(201)))
  expect(refused.body).toMatchObject({ errors: [{ pointer: '/data', detail: 'must have at most 200 levels' }] })
  const text = `${'['.repeat(3_000)}"\\{`
  expect((await report(created('brackets', { text, texts: [text] }))).status).toBe(202)
})

test('a report for several organizations is checked completely before anything is written', async () => {
  await report(created('taken', { a: 1 }))
  const unknown = { ...created(), organization_id: 'org_7zzzzzzzzzzzzzzzzzzzzzzzzz' }
  const { status, body } = await report([created('taken', { a: 2 }), unknown])
  expect([status, body]).toMatchObject([422, { errors: [{ pointer: '/1/organization_id' }] }])
})

test('a report with a thousand errors is answered with the first twenty', async () => {
  const unknown = { ...created(), organization_id: 'org_7zzzzzzzzzzzzzzzzzzzzzzzzz' }
  const { status, text } = await report(Array.from({ length: 1_000 }, () => unknown))
  const { errors } = JSON.parse(text) as { errors: { pointer: string }[] }
  expect([status, errors.map(({ pointer }) => pointer)]).toEqual([
    422,
    Array.from({ length: 20 }, (_, i) => `/${i}/organization_id`),
  ])
})

test('a report has up to a thousand events, all or none are stored, and the same id twice is one event', async () => {
  const { receiver } = await webhookTo()
  const many = await report(Array.from({ length: 50 }, (_, i) => created(`job-${i}`)))
  expect(many.status).toBe(202)
  expect(many.body.map((one) => one.id)).toEqual(Array.from({ length: 50 }, (_, i) => `job-${i}`))
  expect((await report(created('job-7'))).body).toEqual({ id: 'job-7' })
  expect((await report(created('job-7', { other: true }))).status).toBe(409)
  const mixed = await report([created('new-1'), { ...created(), type: 'database.exploded' }])
  expect(mixed.status).toBe(422)
  expect(mixed.text).toContain('/1/type')
  expect(
    (await report([created('new-2'), { ...created(), organization_id: 'org_01h455vb4pex5vsknk084sn02q' }])).status,
  ).toBe(422)
  expect((await report([])).status).toBe(422)
  expect((await report(Array.from({ length: 1_001 }, () => created()))).status).toBe(422)
  expect((await report(created(), owner.token)).status).toBe(403)
  await until(() => receiver.received.length === 50)
  expect(new Set(receiver.received.map((one) => one.headers['webhook-id'])).size).toBe(50)
})

test('the history is paged by cursor, newest first, without gaps and repetitions', async () => {
  const { deliveries } = await webhookTo()
  await report(Array.from({ length: 25 }, () => created()))
  const whole = await settledHistory(deliveries, 25)
  const paged: Delivery[] = []
  let next: string | null = `${deliveries}?limit=10`
  while (next !== null) {
    const page: Awaited<ReturnType<typeof call<Delivery[]>>> = await call<Delivery[]>(next, { token: owner.token })
    paged.push(...page.body)
    const link = /<([^>]+)>/.exec(page.headers.get('link') ?? '')?.[1]
    next = link ? `${api.url}${link}` : null
  }
  expect(paged.map((one) => one.id)).toEqual(whole.map((one) => one.id))
  expect(whole.map((one) => one.id)).toEqual(
    whole
      .map((one) => one.id)
      .toSorted()
      .toReversed(),
  )
})

test('the token of a removed user is rejected by the operator interface too', async () => {
  const guest = await api.person([{ orgId, role: 'member' }])
  expect((await report(created(), guest.token)).status).toBe(403)
  await removeUser(api.db, testOperator, { userId: guest.userId })
  const refused = await report(created(), guest.token)
  expect([refused.status, refused.body]).toMatchObject([401, { code: 'auth.invalid_token' }])
})

// Standard Webhooks signs id, dot, time: with a dot in the id one signature would fit two messages.
test('an event id that the caller chose must not contain a dot', async () => {
  const refused = await report(created('order.1700000000'))
  expect([refused.status, refused.body]).toMatchObject([422, { errors: [{ pointer: '/id' }] }])
})

test('an event shows where it was sent, where not and why, with each attempt', async () => {
  const { webhook } = await webhookTo(() => ({ status: 410 }))
  const other = await webhookTo(undefined, ['invoice.paid'])
  const { body } = await report(created())
  const late = await webhookTo()
  // Its transaction began before the event and was committed after it.
  const unseen = await webhookTo()
  await api.db`
    update keyhook.webhooks set created_at = now() - interval '1 hour', types_since = now() - interval '1 hour'
    where id = ${unseen.webhook.id}`
  type Explained = {
    delivered_to: { webhook_id: string; status: string; attempts: { response_status: number }[] }[]
    not_delivered_to: { webhook_id: string; reason: string }[]
  }
  const explained = await until(async () => {
    const reply = await call<Explained>(`${platform}/events/${body.id}`, { token: member.token })
    const [delivery] = reply.body.delivered_to.filter((one) => one.webhook_id === webhook.id)
    return delivery?.status === 'failed' && reply.body
  })
  const mine = explained.delivered_to.find((one) => one.webhook_id === webhook.id)!
  expect(mine.attempts.map((one) => one.response_status)).toEqual([410])
  const reason = (id: string) => explained.not_delivered_to.find((one) => one.webhook_id === id)?.reason
  expect(reason(other.webhook.id)).toBe('not_subscribed')
  expect(reason(late.webhook.id)).toBe('webhook_created_later')
  expect(reason(unseen.webhook.id)).toBe('webhook_created_later')
  expect((await call(`${platform}/events/nothing`, { token: member.token })).status).toBe(404)
})

test('a webhook that is deleted while events are sent to it receives nothing after the answer', async () => {
  for (let round = 0; round < 4; round++) {
    const { receiver, webhook } = await webhookTo(() => ({ delayMs: 40 }))
    await report(Array.from({ length: 900 }, () => created()))
    await until(() => receiver.received.length >= 10 + 20 * round)
    await call(`${published}/webhooks/${webhook.id}`, { method: 'DELETE', token: owner.token })
    const received = receiver.received.length
    expect(received).toBeLessThan(900)
    await until(async () => {
      const lanes = await api.db`
        select from keyhook.lanes l where l.webhook_id = ${webhook.id} and l.lease_owner is null
          and not exists (select from keyhook.in_flight f where f.lane_id = l.id)`
      return lanes.length === 1
    })
    expect(receiver.received.length).toBe(received)
  }
})

test('a receiver that hangs does not delay the deletion of its webhook', async () => {
  const { receiver, webhook } = await webhookTo(() => new Promise<Reply>(() => {}))
  await report(created())
  await until(() => receiver.received.length === 1)
  const started = performance.now()
  await call(`${published}/webhooks/${webhook.id}`, { method: 'DELETE', token: owner.token })
  expect(performance.now() - started).toBeLessThan(2_500)
})

test('an event shows its attempts by their numbers, whatever the clocks of the dispatchers were', async () => {
  let broken = true
  const { webhook, deliveries } = await webhookTo(() => ({ status: broken ? 500 : 200 }))
  const { body } = await report(created())
  const [first] = await settledHistory(deliveries, 1)
  broken = false
  await call(`${platform}/webhooks/${webhook.id}/deliveries/${first!.id}/redeliver`, {
    method: 'POST',
    token: owner.token,
  })
  await settledHistory(deliveries, 2)
  await api.db`
    update keyhook.attempts set id = ${uuid7(Date.now() + 30_000)}
    where lane_id = (select lane_id from keyhook.webhooks where id = ${webhook.id}) and attempt = 1`
  const explained = await call<{
    delivered_to: { webhook_id: string; status: string; attempts: { attempt: number }[] }[]
  }>(`${platform}/events/${body.id}`, { token: owner.token })
  const [one] = explained.body.delivered_to.filter((each) => each.webhook_id === webhook.id)
  expect([one!.status, one!.attempts.map(({ attempt }) => attempt)]).toEqual(['succeeded', [1, 2]])
})

test('an event does not show webhooks that were deleted before it, and shows those deleted after it', async () => {
  const remove = async ({ webhook }: Awaited<ReturnType<typeof webhookTo>>) => {
    const path = `${published}/webhooks/${webhook.id}`
    expect((await call(path, { method: 'DELETE', token: owner.token })).status).toBe(204)
    return webhook.id
  }
  const before = [await remove(await webhookTo()), await remove(await webhookTo(undefined, ['invoice.paid']))]
  const [served, unsubscribed] = [await webhookTo(), await webhookTo(undefined, ['invoice.paid'])]
  const { body } = await report(created())
  const after = [await remove(served), await remove(unsubscribed)]
  type Listed = { webhook_id: string }[]
  const { body: explained } = await call<{ delivered_to: Listed; not_delivered_to: Listed }>(
    `${platform}/events/${body.id}`,
    { token: owner.token },
  )
  const ids = [...explained.delivered_to, ...explained.not_delivered_to].map((one) => one.webhook_id)
  expect(ids).toEqual(expect.arrayContaining(after))
  expect(ids.filter((id) => before.includes(id))).toEqual([])
})
