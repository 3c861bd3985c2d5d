import { createConfig, lintFromString } from '@redocly/openapi-core'
import { Validator } from '@seriousme/openapi-schema-validator'
import { type RulesetDefinition, Spectral } from '@stoplight/spectral-core'
import { oas } from '@stoplight/spectral-rulesets'
import { pino } from 'pino'
import { beforeEach, expect, test } from 'vitest'
import { applyEventTypes, lockEventTypes, removeEventTypes } from '../../src/delivery/event-types.ts'
import { eventTypes } from '../../src/delivery/events.ts'
import type { Json } from '../../src/http/basis.ts'
import { call, type Reply } from '../kit/client.ts'
import { apiAlone } from '../kit/composed.ts'
import { walk } from '../kit/document-walk.ts'
import { readDocumented } from '../kit/documented.ts'
import { orderLost, orderShipped, stored } from '../kit/order-types.ts'
import { until } from '../kit/until.ts'
import {
  api,
  operatorToken,
  orgId,
  owner,
  platform,
  published,
  report,
  settledHistory,
  webhookTo,
} from './support/delivering-api.ts'

/*
 * Event types that an operator declares beside the six: from declaration to delivery.
 */

type Problem = { code: string; errors: { pointer: string; detail: string }[] }

const declare = (types: Parameters<typeof stored>[0][], force = true) =>
  applyEventTypes(api.db, types.map(stored), { dryRun: false, force })
const shipped = (data: unknown, more: object = {}) => ({ organization_id: orgId, type: 'order.shipped', data, ...more })
const createWebhook = (body: object, url = published) =>
  call<Problem & { id: string }>(`${url}/webhooks`, { token: owner.token, body })
const hook = { url: 'https://example.com/', event_types: ['order.shipped', 'invoice.paid'] }
const errorsOf = async (reply: Promise<{ status: number; body: unknown }>) => {
  const { status, body } = await reply
  return [status, (body as Problem).errors]
}

beforeEach(() => declare([orderShipped, orderLost]))

test('with none declared there are the six, in requests, in the list and in /openapi.json', async () => {
  await api.db`truncate keyhook.event_types`
  const { document, call: documentedCall } = await readDocumented(api.url)
  expect(Object.keys(document.webhooks)).toEqual([...eventTypes])
  expect(JSON.stringify(document)).not.toContain('x-event-type')
  for (const name of ['NewWebhook', 'Webhook']) {
    const { event_types } = document.components.schemas[name]!.properties as { event_types: Json }
    expect(event_types).toMatchObject({ items: { type: 'string', enum: [...eventTypes] }, maxItems: 6 })
  }
  expect(await errorsOf(createWebhook(hook))).toEqual([
    422,
    [{ pointer: '/event_types/0', detail: `must be one of ${eventTypes.join(', ')}` }],
  ])
  const path = '/platform/v1/organizations/{org_id}/event-types'
  const { body } = await documentedCall<object[]>('GET', path, `${platform}/event-types`, { token: owner.token })
  expect(body).toMatchObject(eventTypes.map((name) => ({ name, custom: false, example: { type: name } })))
})

test('an event of a declared type is delivered and recorded under its name, with data as it was sent', async () => {
  const { receiver, deliveries } = await webhookTo(undefined, ['order.shipped'])
  const exact = '{"order_id":"o-7","total":12345678901234567890.10}'
  const text = JSON.stringify(shipped(0, { id: 'shipped-7' })).replace('"data":0', `"data":${exact}`)
  const { status } = await report(JSON.parse(text, keepDigits as (key: string, value: unknown) => unknown))
  expect(status).toBe(202)
  const [delivery] = (await settledHistory(deliveries, 1)) as unknown as { event_type: string; status: string }[]
  expect(delivery).toMatchObject({ event_type: 'order.shipped', status: 'succeeded' })
  expect(receiver.received[0]!.headers['x-service-event']).toBe('order.shipped')
  expect(receiver.received[0]!.body.toString()).toContain(`"type":"order.shipped"`)
  expect(receiver.received[0]!.body.toString()).toContain(`"data":${exact}`)
  const documented = await readDocumented(api.url)
  const shown = [
    ['/api/v1/organizations/{org_id}/webhooks', `${published}/webhooks`],
    ['/api/v1/organizations/{org_id}/webhooks/{webhook_id}/deliveries', deliveries],
    ['/platform/v1/organizations/{org_id}/events/{event_id}', `${platform}/events/shipped-7`],
  ]
  for (const [path, url] of shown) {
    const { text: answer } = await documented.call('GET', path!, url!, { token: owner.token })
    expect(answer).toContain('order.shipped')
  }
})

/** Numbers as they are written, which JSON.stringify writes again. */
function keepDigits(_key: string, value: unknown, context: unknown): unknown {
  const { source } = context as { source?: string }
  const { rawJSON } = JSON as unknown as { rawJSON(text: string): unknown }
  return typeof value === 'number' && source !== undefined ? rawJSON(source) : value
}

test('a test event sends the example, and the list shows it', async () => {
  const { receiver, webhook } = await webhookTo(undefined, ['order.shipped'])
  const url = `${platform}/webhooks/${webhook.id}/test`
  const { status } = await call(url, { token: owner.token, body: { event_type: 'order.shipped' } })
  expect(status).toBe(202)
  const [first] = await until(async () => receiver.received.length > 0 && receiver.received)
  const body = JSON.parse(first!.body.toString())
  expect(body).toMatchObject({ type: 'order.shipped', data: { test: true, ...orderShipped.example } })
  const { body: list } = await call<{ name: string }[]>(`${platform}/event-types`, { token: owner.token })
  expect(list.slice(6)).toEqual([
    {
      name: 'order.lost_in_transit',
      description: orderLost.description,
      custom: true,
      example: expect.objectContaining({ type: 'order.lost_in_transit', data: {} }),
    },
    {
      name: 'order.shipped',
      description: orderShipped.description,
      custom: true,
      example: expect.objectContaining({ type: 'order.shipped', data: orderShipped.example }),
    },
  ])
})

test('a test event is marked as one, also where the example has a field of that name', async () => {
  await declare([{ ...orderLost, example: { test: false } }])
  const { receiver, webhook } = await webhookTo()
  const body = { event_type: orderLost.name }
  await call(`${platform}/webhooks/${webhook.id}/test`, { token: owner.token, body })
  const [first] = await until(async () => receiver.received.length > 0 && receiver.received)
  expect(JSON.parse(first!.body.toString()).data).toEqual({ test: true })
})

test('the list of event types has pages', async () => {
  const names: string[] = []
  let next: string | undefined = `${platform}/event-types?limit=3`
  while (next !== undefined) {
    const reply: Reply<{ name: string }[]> = await call(next, { token: owner.token })
    names.push(...reply.body.map(({ name }) => name))
    const link = /<([^>]+)>/.exec(reply.headers.get('link') ?? '')?.[1]
    next = link && api.url + link
  }
  expect(names).toEqual([...eventTypes, 'order.lost_in_transit', 'order.shipped'])
})

test('a type that is not declared is refused, with the names of those that are, beside other problems of the body', async () => {
  const known = `must be one of ${[...eventTypes, 'order.lost_in_transit', 'order.shipped'].join(', ')}`
  const body = { url: 'http://example.com/', event_types: ['order.shipped', 'order.sent'] }
  expect(await errorsOf(createWebhook(body))).toEqual([
    422,
    [
      { pointer: '/url', detail: 'must use the https:// scheme' },
      { pointer: '/event_types/1', detail: known },
    ],
  ])
  expect(await errorsOf(report([shipped(orderShipped.example), { ...shipped({}), type: 'order.sent' }]))).toEqual([
    422,
    [{ pointer: '/1/type', detail: known }],
  ])
  const all = { url: 'https://example.com/', event_types: [...eventTypes, 'order.lost_in_transit', 'order.shipped'] }
  expect((await createWebhook(all)).status).toBe(201)
})

test('a webhook is changed to a declared type, and events are listed by it', async () => {
  const { body: webhook } = await createWebhook({ ...hook, event_types: ['invoice.paid'] })
  const patch = (types: string[]) =>
    call(`${platform}/webhooks/${webhook.id}`, { token: owner.token, method: 'PATCH', body: { event_types: types } })
  expect((await patch(['order.shipped'])).status).toBe(200)
  expect((await patch(['order.sent'])).status).toBe(422)
  await report(shipped(orderShipped.example, { id: 'listed-1' }))
  const list = (types: string) =>
    call<{ id: string; type: string }[]>(`${platform}/events?event_types=${types}`, { token: owner.token })
  expect((await list('order.shipped,invoice.paid')).body[0]).toMatchObject({ id: 'listed-1', type: 'order.shipped' })
  const { status, body } = await list('order.sent')
  expect([status, body]).toMatchObject([422, { errors: [{ parameter: 'event_types' }] }])
})

test('data is checked by the schema of its type, and nothing of a batch with a problem is stored', async () => {
  expect(await errorsOf(report(shipped({ order_id: 'x', total: -1, address: {}, color: 'red' })))).toEqual([
    422,
    [
      { pointer: '/data/color', detail: 'is not a known field' },
      { pointer: '/data/order_id', detail: 'must have at least 3 characters' },
      { pointer: '/data/total', detail: 'must be at least 0' },
      { pointer: '/data/address/city', detail: 'is required' },
    ],
  ])
  const batch = [shipped(orderShipped.example, { id: 'batch-1' }), shipped({}, { id: 'batch-2' })]
  expect(await errorsOf(report(batch))).toEqual([422, [{ pointer: '/1/data/order_id', detail: 'is required' }]])
  expect((await call(`${platform}/events/batch-1`, { token: owner.token })).status).toBe(404)
  // The six take any data, as before.
  const mixed = [shipped(orderShipped.example), { organization_id: orgId, type: 'invoice.paid', data: { any: 1 } }]
  expect((await report(mixed)).status).toBe(202)
})

test('data that takes very long to check is refused within a second, and later requests are served', async () => {
  const schema = { properties: { a: { type: 'string', pattern: '^(a+)+$' }, b: { type: 'array', uniqueItems: true } } }
  await declare([{ ...orderShipped, schema, example: {} }])
  const hostile = [{ a: `${'a'.repeat(60)}!` }, { b: Array.from({ length: 6_000 }, (_, i) => ({ i })) }]
  for (const data of hostile) {
    const startedAt = performance.now()
    const detail = 'takes too long to check against the schema of its type'
    expect(await errorsOf(report(shipped(data)))).toEqual([422, [{ pointer: '/data', detail }]])
    expect(performance.now() - startedAt).toBeLessThan(20_000)
  }
  expect((await report(shipped({ a: 'aaa', b: [1, 2] }))).status).toBe(202)
})

test('every node uses a changed or removed declaration from the next request on', async () => {
  const other = apiAlone(api, pino({ level: 'silent' }))
  const otherUrl = await other.app.listen({ host: '127.0.0.1', port: 0 })
  const send = (url: string, data: object) =>
    call(`${url}/operator/v1/events`, { token: operatorToken, body: shipped(data) })
  for (const url of [api.url, otherUrl]) expect((await send(url, orderShipped.example)).status).toBe(202)
  await declare([{ ...orderShipped, schema: { required: ['carrier'] }, example: { carrier: 'x' } }])
  for (const url of [api.url, otherUrl]) {
    expect((await send(url, orderShipped.example)).status).toBe(422)
    expect((await send(url, { carrier: 'post' })).status).toBe(202)
  }
  await declare([])
  for (const url of [api.url, otherUrl]) {
    expect((await send(url, { carrier: 'post' })).status).toBe(422)
    expect((await createWebhook(hook, `${url}/api/v1/organizations/${orgId}`)).status).toBe(422)
    expect(Object.keys((await readDocumented(url)).document.webhooks)).toEqual([...eventTypes])
  }
  await other.close()
})

test('a type with subscribed webhooks is removed by force only; the records that name it stay as documented', async () => {
  const { body: webhook } = await createWebhook(hook)
  await expect(declare([orderLost], false)).rejects.toThrow(/order\.shipped \(\d+\)/)
  expect((await report(shipped(orderShipped.example))).status).toBe(202)
  expect((await declare([orderLost])).removed).toEqual(['order.shipped'])
  expect((await report(shipped(orderShipped.example))).status).toBe(422)
  const documented = await readDocumented(api.url)
  const path = '/api/v1/organizations/{org_id}/webhooks'
  const { body } = await documented.call<{ id: string; event_types: string[] }[]>(
    'GET',
    path,
    `${published}/webhooks`,
    {
      token: owner.token,
    },
  )
  expect(body.find(({ id }) => id === webhook.id)!.event_types).toEqual(hook.event_types)
})

test('a webhook that is being created with a type keeps it from being removed', async () => {
  await declare([orderShipped, orderLost])
  await api.db`update keyhook.webhooks set event_types = '{invoice.paid}'`
  const { applied } = await api.db.begin(async (tx) => {
    expect(await lockEventTypes(tx, ['order.shipped', 'order.sent'])).toEqual(['order.shipped'])
    const applied = declare([orderLost], false).then(
      () => 'removed',
      (error) => error.code as string,
    )
    await expect.poll(() => waitingForLocks()).toBe(1)
    await tx`
      insert into keyhook.webhooks (org_id, id, url, event_types, secret_key_id, secret_box, created_by)
      values (${orgId}, 'wh_late', 'https://example.com', '{order.shipped}', 'k', '\\x00', ${owner.userId})`
    return { applied }
  })
  expect(await applied).toBe('event_type.in_use')
  await api.db`delete from keyhook.webhooks where id = 'wh_late'`
})

test('a webhook is not created or changed with a type that is removed at that moment', async () => {
  const { body: webhook } = await createWebhook({ ...hook, event_types: ['invoice.paid'] })
  const change = { token: owner.token, method: 'PATCH', body: { event_types: ['invoice.paid', 'order.shipped'] } }
  const { answers } = await api.db.begin(async (tx) => {
    await removeEventTypes(tx, ['order.shipped'])
    // Both have found the type declared when they wait for its row.
    const answers = [createWebhook(hook), call<Problem>(`${platform}/webhooks/${webhook.id}`, change)]
    await expect.poll(() => waitingForLocks()).toBe(2)
    return { answers }
  })
  for (const { status, body } of await Promise.all(answers)) {
    expect([status, body.errors[0]!.pointer]).toEqual([422, expect.stringMatching(/^\/event_types\/[01]$/)])
  }
})

async function waitingForLocks(): Promise<number> {
  const [row] = await api.db<{ waiting: number }[]>`
    select count(*)::int as waiting from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock'`
  return row!.waiting
}

test('/openapi.json lists declared types under webhooks, with their schemas and examples, and stays valid', async () => {
  const { document, checkValue } = await readDocumented(api.url)
  expect(Object.keys(document.webhooks)).toEqual([...eventTypes, 'order.lost_in_transit', 'order.shipped'])
  const { post } = document.webhooks['order.shipped']!
  expect(post).toMatchObject({ operationId: 'deliverOrderShipped', 'x-basis': 'chosen', 'x-decision': 93 })
  expect(document.components.schemas.OrderShippedData).toMatchObject({
    properties: { address: { $ref: '#/components/schemas/OrderShippedData/$defs/address' } },
  })
  const accepted = ['webhooks', 'order.shipped', 'post', 'requestBody', 'content', 'application/json']
  const { example } = (post.requestBody as { content: Record<string, { example: object }> }).content[
    'application/json'
  ]!
  checkValue([...accepted, 'schema'], example)
  expect(() => checkValue([...accepted, 'schema'], { ...example, data: { address: {} } })).toThrow()
  const lists = [...walk(document)].filter(
    ([, node]) => Array.isArray(node.enum) && node.enum.includes('restore.completed'),
  )
  expect(lists.length).toBeGreaterThan(3)
  for (const [where, node] of lists) expect(node.enum, where.join(' ')).toContain('order.shipped')

  const valid = await new Validator().validate(structuredClone(document))
  expect(valid.errors).toBeUndefined()
  const config = await createConfig({ extends: ['recommended'] })
  const source = JSON.stringify(document)
  const redocly = await lintFromString({ source, absoluteRef: '/openapi.json', config })
  expect(redocly.map(({ message, location }) => [message, location[0]?.pointer])).toEqual([])
  const spectral = new Spectral()
  spectral.setRuleset({ extends: [[oas as RulesetDefinition, 'recommended']] })
  expect((await spectral.run(source)).map(({ message, path }) => [message, path.join('/')])).toEqual([])
})
