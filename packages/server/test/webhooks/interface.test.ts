import { setTimeout as sleep } from 'node:timers/promises'
import { pino } from 'pino'
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { composeDispatcher, composeHints } from '../../src/compose.ts'
import type { OrgId, WebhookId } from '../../src/kernel/ids.ts'
import { uuid7 } from '../../src/kernel/uuid7.ts'
import { removeUser } from '../../src/operator/directory.ts'
import { deleteWebhook } from '../../src/store/webhooks.ts'
import { call } from '../support/client.ts'
import { type Person, startApi, startApiForTest, type TestApi, testOperator } from '../support/installation.ts'
import { countRows } from '../support/rows.ts'
import { deliveryEnvironment, until } from './support/delivery-test.ts'
import { type Reply, receiverFor } from './support/receiver.ts'

let api: TestApi
let orgId: OrgId
let owner: Person
let member: Person
let operatorToken: string
let engine: Awaited<ReturnType<typeof composeDispatcher>>
let published: string
let platform: string

beforeAll(async () => {
  api = await startApi({ ...deliveryEnvironment, KEYHOOK_DELIVERY_RETRY_SCHEDULE: '0s' })
  orgId = await api.organization()
  owner = await api.person([{ orgId, role: 'owner' }])
  member = await api.person([{ orgId, role: 'member' }])
  operatorToken = await api.issuer.issue({ subject: 'operator', ttlSeconds: 600, operator: true })
  const log = pino({ level: 'silent' })
  engine = await composeDispatcher(api, log, composeHints(api, log))
  published = `${api.url}/api/v1/organizations/${orgId}`
  platform = `${api.url}/platform/v1/organizations/${orgId}`
})
afterAll(async () => {
  await engine.stop()
  await api.close()
})

type Webhook = { id: string; secret: string }
type Delivery = {
  id: string
  event_id: string
  attempt: number
  status: string
  request: { headers: Record<string, string>; url: string; timings: Record<string, number | null>; address: string }
  response: { status: number; body: string; headers: Record<string, string> } | null
  error: { code: string } | null
  next_attempt_at: string | null
}

async function webhookTo(reply?: Parameters<typeof receiverFor>[0], eventTypes = ['database.created']) {
  const receiver = await receiverFor(reply)
  const body = { url: receiver.url, event_types: eventTypes }
  const { body: webhook } = await call<Webhook>(`${published}/webhooks`, { token: owner.token, body })
  onTestFinished(async () => {
    await call(`${published}/webhooks/${webhook.id}`, { method: 'DELETE', token: owner.token })
  })
  return { receiver, webhook, deliveries: `${published}/webhooks/${webhook.id}/deliveries` }
}

const report = (body: unknown, token = operatorToken) =>
  call<{ id: string } & { id: string }[]>(`${api.url}/operator/v1/events`, { token, body })
const created = (id?: string, data: object = { database_id: 'db_1' }) => ({
  organization_id: orgId,
  type: 'database.created',
  data,
  ...(id && { id }),
})
const history = async (deliveries: string) => (await call<Delivery[]>(deliveries, { token: member.token })).body
const settledHistory = (deliveries: string, count: number) =>
  until(async () => {
    const rows = await history(deliveries)
    return rows.filter((row) => row.status !== 'sending').length >= count && rows
  })

test('a reported event arrives, and its attempt can be read with everything that was sent and answered', async () => {
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

test('numbers arrive as they were reported, down to the last digit, and said again they are the same event', async () => {
  const { receiver } = await webhookTo()
  const data = '{"total":12345678901234567890,"rate":1e400,"cold":-0,"plain":1.5}'
  const raw = `{"organization_id":"${orgId}","type":"database.created","data":${data},"id":"exact"}`
  const tell = (text: string) => call(`${api.url}/operator/v1/events`, { token: operatorToken, raw: text })
  expect((await tell(raw)).status).toBe(202)
  expect((await tell(raw)).status).toBe(202)
  expect((await tell(raw.replace('7890,', '7891,'))).status).toBe(409)
  await until(() => receiver.received.length === 1)
  expect(receiver.received[0]!.body.toString()).toContain(`"data":${data}`)
  // Numbers that JavaScript would spell another way are looked for by a parser with a limit to how deep it can go.
  const deep = `${'['.repeat(20_000)}1.0${']'.repeat(20_000)}`
  const refused = await tell(`{"organization_id":"${orgId}","type":"invoice.paid","data":{"deep":${deep}}}`)
  expect([refused.status, refused.body]).toMatchObject([400, { detail: 'The body is nested too deeply.' }])
})

// Seen to fail without a limit: 3,000 levels were taken, which no parser of ours can compare when they are said again.
test('data of more than 200 levels is refused; whatever is taken can be said again', async () => {
  const nested = (levels: number) => JSON.parse(`${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}`)
  const tell = async (levels: number) => (await report(created(`levels-${levels}`, nested(levels)))).status
  expect([await tell(200), await tell(200)]).toEqual([202, 202])
  expect(await tell(201)).toBe(422)
  // By the parser, where the stack is too small for it.
  expect([400, 422]).toContain(await tell(3_000))
  const refused = await report(created('levels', nested(201)))
  expect(refused.body).toMatchObject({ errors: [{ pointer: '/data', detail: 'must have at most 200 levels' }] })
  const text = `${'['.repeat(3_000)}"\\{`
  expect((await report(created('brackets', { text, texts: [text] }))).status).toBe(202)
})

// Seen to fail when they are only found out about one after the other.
test('of a report for several organizations all that is wrong is said, before anything is written', async () => {
  await report(created('taken', { a: 1 }))
  const unknown = { ...created(), organization_id: 'org_7zzzzzzzzzzzzzzzzzzzzzzzzz' }
  const { status, body } = await report([created('taken', { a: 2 }), unknown])
  expect([status, body]).toMatchObject([422, { errors: [{ pointer: '/1/organization_id' }] }])
})

test('one report holds up to a thousand events, all or none, and the same id twice is one event', async () => {
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

test('the history pages by cursor, newest first, and misses and repeats nothing', async () => {
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

test('a test event goes to one webhook, marked, signed and recorded', async () => {
  const { receiver, webhook, deliveries } = await webhookTo()
  const other = await webhookTo(undefined, ['invoice.paid'])
  const sent = await call<{ event_id: string }>(`${platform}/webhooks/${other.webhook.id}/test`, {
    token: owner.token,
    body: { event_type: 'backup.failed' },
  })
  expect(sent.status).toBe(202)
  await until(() => other.receiver.received.length === 1)
  const body = JSON.parse(other.receiver.received[0]!.body.toString())
  expect(body).toMatchObject({ id: sent.body.event_id, type: 'backup.failed', data: { test: true } })
  expect(receiver.received).toEqual([])
  expect(await history(deliveries)).toEqual([])
  const refused = { token: member.token, body: { event_type: 'backup.failed' } }
  expect((await call(`${platform}/webhooks/${webhook.id}/test`, refused)).status).toBe(403)
})

test('a delivery can be sent again, and everything that never arrived can be recovered', async () => {
  let broken = true
  const { receiver, webhook, deliveries } = await webhookTo(() => ({ status: broken ? 500 : 200 }))
  const since = new Date(Date.now() - 60_000).toISOString()
  await report([created('r-1'), created('r-2'), created('r-3')])
  const failed = await settledHistory(deliveries, 3)
  expect(failed.map((one) => [one.status, one.error?.code])).toEqual(
    Array.from({ length: 3 }, () => ['failed', 'status_not_successful']),
  )
  broken = false
  const first = failed.find((one) => one.event_id === 'r-1')!
  const redeliver = `${platform}/webhooks/${webhook.id}/deliveries/${first.id}/redeliver`
  expect((await call(redeliver, { method: 'POST', token: owner.token })).status).toBe(202)
  // An id that has the shape of one, and is none that anybody made.
  const nobodys = 'dlv_30000000000000000000000000'
  const missing = `${platform}/webhooks/${webhook.id}/deliveries/${nobodys}/redeliver`
  expect((await call(missing, { method: 'POST', token: owner.token })).status).toBe(404)
  const cursor = Buffer.from(nobodys).toString('base64url')
  expect((await call(`${deliveries}?limit=1&cursor=${cursor}`, { token: owner.token })).status).toBe(200)
  const again = await settledHistory(deliveries, 4)
  expect(again[0]).toMatchObject({ event_id: 'r-1', attempt: 2, status: 'succeeded' })

  const recover = `${platform}/webhooks/${webhook.id}/recover`
  const dry = await call(recover, { token: owner.token, body: { since, dry_run: true } })
  expect(dry.body).toEqual({ id: null, matching: 2 })
  const started = await call<{ id: string; matching: number }>(recover, { token: owner.token, body: { since } })
  expect(started.body.matching).toBe(2)
  const job = await until(async () => {
    const shown = await call<{ status: string; redelivered: number }>(
      `${platform}/webhooks/${webhook.id}/recoveries/${started.body.id}`,
      { token: owner.token },
    )
    return shown.body.status === 'finished' && shown.body
  })
  expect(job.redelivered).toBe(2)
  await until(() => receiver.received.length === 6)
  expect((await call(recover, { token: owner.token, body: { since: 'yesterday' } })).status).toBe(422)
  for (const [body, pointer] of [
    [{ since, until: since }, '/until'],
    [{ since, until: '2000-01-31T12:00:00Z', dry_run: true }, '/until'],
    [{ since: '2999-01-01T00:00:00Z' }, '/since'],
  ] as const) {
    const refused = await call(recover, { token: owner.token, body })
    expect([refused.status, refused.body], pointer).toMatchObject([422, { errors: [{ pointer }] }])
  }
})

test('an attempt that is on its way is not sent again beside it', async () => {
  const answer = Promise.withResolvers<Reply>()
  const { webhook, deliveries } = await webhookTo(() => answer.promise)
  await report(created('busy-1'))
  const [sending] = await until(async () => {
    const rows = await history(deliveries)
    return rows.length === 1 && rows
  })
  expect(sending!.status).toBe('sending')
  const redeliver = `${platform}/webhooks/${webhook.id}/deliveries/${sending!.id}/redeliver`
  const refused = await call(redeliver, { method: 'POST', token: owner.token })
  expect([refused.status, refused.body]).toMatchObject([409, { code: 'conflict' }])
  answer.resolve({ status: 200 })
  await settledHistory(deliveries, 1)
  expect((await call(redeliver, { method: 'POST', token: owner.token })).status).toBe(202)
  await settledHistory(deliveries, 2)
})

// Seen to fail where the webhook is only looked for before the transaction.
test.each([
  ['test', { event_type: 'backup.failed' }],
  ['recover', { since: '2026-01-01T00:00:00Z' }],
])('%s of a webhook that is deleted before its turn is refused, and leaves nothing', async (what, body) => {
  const { webhook } = await webhookTo()
  const deleting = Promise.withResolvers<void>()
  const mayCommit = Promise.withResolvers<void>()
  const deletion = api.db.begin(async (tx) => {
    expect(await deleteWebhook(tx, orgId, webhook.id as WebhookId)).toBe(true)
    deleting.resolve()
    await mayCommit.promise
  })
  await deleting.promise
  const before = await countRows(api.db)
  const asked = call(`${platform}/webhooks/${webhook.id}/${what}`, { token: owner.token, body })
  await until(async () => {
    const [row] = await api.db`select count(*)::int as waiting from pg_locks where not granted`
    return row!.waiting > 0
  })
  mayCommit.resolve()
  await deletion
  expect((await asked).status).toBe(404)
  expect(await countRows(api.db)).toEqual(before)
})

test('the token of a user who is gone is worthless at the door of operators, too', async () => {
  const guest = await api.person([{ orgId, role: 'member' }])
  expect((await report(created(), guest.token)).status).toBe(403)
  await removeUser(api.db, testOperator, { userId: guest.userId })
  const refused = await report(created(), guest.token)
  expect([refused.status, refused.body]).toMatchObject([401, { code: 'auth.invalid_token' }])
})

// A dot parts the id from the time in what Standard Webhooks signs: one signature would fit two messages.
test('an id that somebody chose has no dot in it', async () => {
  const refused = await report(created('order.1700000000'))
  expect([refused.status, refused.body]).toMatchObject([422, { errors: [{ pointer: '/id' }] }])
})

test('an event is explained: where it went, where it did not and why, with each attempt', async () => {
  const { webhook } = await webhookTo(() => ({ status: 410 }))
  const other = await webhookTo(undefined, ['invoice.paid'])
  const { body } = await report(created())
  const late = await webhookTo()
  // Its creation began before the event, and came to be seen after it.
  const unseen = await webhookTo()
  await api.db`update keyhook.webhooks set created_at = now() - interval '1 hour' where id = ${unseen.webhook.id}`
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

test('a webhook that was busy when it was deleted hears nothing after the answer', async () => {
  for (let round = 0; round < 4; round++) {
    const { receiver, webhook } = await webhookTo(() => ({ delayMs: 15 }))
    await report(Array.from({ length: 300 }, () => created()))
    await until(() => receiver.received.length >= 10 + 20 * round)
    await call(`${published}/webhooks/${webhook.id}`, { method: 'DELETE', token: owner.token })
    const heard = receiver.received.length
    expect(heard).toBeLessThan(300)
    await sleep(300)
    expect(receiver.received.length).toBe(heard)
  }
})

test('a receiver that hangs does not keep the deletion of its webhook waiting', async () => {
  const { receiver, webhook } = await webhookTo(() => new Promise<Reply>(() => {}))
  await report(created())
  await until(() => receiver.received.length === 1)
  const begun = performance.now()
  await call(`${published}/webhooks/${webhook.id}`, { method: 'DELETE', token: owner.token })
  expect(performance.now() - begun).toBeLessThan(2_500)
})

test('an event is explained by the numbers of its attempts, whatever the clocks of those who made them said', async () => {
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

test('a recovery ends where the database says that it is now, whatever this node believes', async () => {
  const { webhook, deliveries } = await webhookTo(() => ({ status: 500 }))
  await report(created())
  await settledHistory(deliveries, 1)
  const since = new Date(Date.now() - 20_000).toISOString()
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() - 50_000 })
  onTestFinished(() => void vi.useRealTimers())
  const body = { since, dry_run: true }
  const counted = await call(`${platform}/webhooks/${webhook.id}/recover`, { token: owner.token, body })
  expect([counted.status, counted.body]).toEqual([202, { id: null, matching: 1 }])
})

test('webhooks that were deleted before an event are no part of its explanation, those deleted after it are', async () => {
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

test('metrics answer callers on this machine, and nobody who comes through a proxy', async () => {
  const reply = await call(`${api.url}/metrics`)
  expect(reply.status).toBe(200)
  expect(reply.text).toContain('keyhook_delivery_attempts_total')
  for (const headers of [{ 'x-forwarded-for': '8.8.8.8' }, { via: '1.1 proxy' }]) {
    expect((await call(`${api.url}/metrics`, { headers })).status).toBe(404)
  }
})

test('with a token set, metrics ask for it: none at all, a wrong one, the right one', async () => {
  const guarded = await startApiForTest({ KEYHOOK_METRICS_TOKEN: 'a-token-of-more-than-16-characters' })
  const ask = (token?: string) => call(`${guarded.url}/metrics`, token === undefined ? {} : { token })
  const without = await ask()
  // RFC 6750, 3.1: no error code for a request that shows nothing.
  expect([without.status, without.headers.get('www-authenticate')]).toEqual([401, 'Bearer realm="keyhook"'])
  const wrong = await ask('a-token-of-more-than-16-charactres')
  expect([wrong.status, wrong.headers.get('www-authenticate')]).toEqual([401, expect.stringContaining('invalid_token')])
  expect((await ask('a-token-of-more-than-16-characters')).status).toBe(200)
  for (const authorization of ['a-token-of-more-than-16-characters', 'Basic a-token-of-more-than-16-characters']) {
    const other = await call(`${guarded.url}/metrics`, { headers: { authorization } })
    expect([other.status, other.headers.get('www-authenticate')]).toEqual([401, 'Bearer realm="keyhook"'])
  }
})
