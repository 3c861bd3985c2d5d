import { pino } from 'pino'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { composeHints } from '../../src/compose/dispatcher.ts'
import { newId, type OrgId } from '../../src/lib/ids.ts'
import { deliveryEnvironment } from '../delivery/support/delivery-test.ts'
import { eventIdOf, receiverFor } from '../delivery/support/receiver.ts'
import { call } from '../kit/client.ts'
import { dispatcherAlone } from '../kit/composed.ts'
import { keyhook } from '../kit/processes.ts'
import { countRows } from '../kit/rows.ts'
import { until } from '../kit/until.ts'
import { type CommandsBeside, commandsBeside } from './support/commands-beside.ts'

/*
 * Events of another platform, from a shell: `keyhook event publish`, and the operator's token for doing it over HTTP.
 */

let beside: CommandsBeside
let orgId: OrgId

beforeAll(async () => {
  beside = await commandsBeside(deliveryEnvironment)
  orgId = await beside.api.organization()
})
afterAll(() => beside.close())

const event = (data: string, ...more: string[]) => [
  ...['event', 'publish', '--org', orgId, '--type', 'invoice.paid', '--data', data],
  ...more,
]
const stored = async (id: string) => {
  const rows = await beside.api.db<{ body: string; type: string }[]>`
    select body, type from keyhook.events where org_id = ${orgId} and id = ${id}`
  return rows.map((row) => ({ type: row.type, data: JSON.parse(row.body).data }))
}

test('an event is published, reported as text or as one line of JSON, and recorded in the audit log for the operator', async () => {
  await beside.text(/^Published evt_\w{26}\.\n$/, ...event('{"invoice_id":"inv_1"}'))
  const { id, ...rest } = await beside.json<{ id: string }>(...event('{"invoice_id":"inv_2","größe":[1,{}]}'))
  expect(rest).toEqual({})
  expect(await stored(id)).toEqual([{ type: 'invoice.paid', data: { invoice_id: 'inv_2', größe: [1, {}] } }])
  const audit = await beside.api.db`
    select action, actor_kind from keyhook.audit_entries where org_id = ${orgId} and target_id = ${id}`
  expect(audit).toEqual([{ action: 'event.reported', actor_kind: 'operator' }])
})

test('data that is too large is rejected', async () => {
  const large = await beside.run(...event(JSON.stringify({ text: 'x'.repeat(66_000) })))
  expect([large.code, large.stderr]).toEqual([2, '--data: must have at most 65536 bytes\n'])
})

test('the same id twice is one event; with other content it is rejected with exit code 2', async () => {
  const named = { id: 'job:7' }
  expect(await beside.json(...event('{"a":1,"b":2}', '--id', named.id))).toEqual(named)
  expect(await beside.json(...event('{"b":2,"a":1}', '--id', named.id))).toEqual(named)
  const other = await beside.run(...event('{"a":2}', '--id', named.id))
  expect([other.code, other.stdout, other.stderr]).toEqual([
    2,
    '',
    'There is an event job:7 already, with other content.\n',
  ])
  const otherType = await beside.run(
    ...event('{"a":1,"b":2}', '--id', named.id).map((word) => (word === 'invoice.paid' ? 'backup.failed' : word)),
  )
  expect(otherType.code).toBe(2)
  expect(await stored(named.id)).toEqual([{ type: 'invoice.paid', data: { a: 1, b: 2 } }])
  // Ids are unique within an organization: another one may use the same id.
  const elsewhere = await beside.api.organization('Elsewhere')
  const args = event('{"a":3}', '--id', named.id).map((word) => (word === orgId ? elsewhere : word))
  expect(await beside.json(...args)).toEqual(named)
})

test('the dispatchers of other processes get a hint before the command ends', async () => {
  const hints = composeHints(beside.api, pino({ level: 'silent' }))
  const received: unknown[] = []
  hints.onHint((orgIds) => void received.push(orgIds))
  onTestFinished(await hints.listen())
  await beside.json(...event('{"invoice_id":"inv_3"}'))
  await until(() => received.length > 0)
  expect(received).toEqual([[orgId]])
})

test('the event is delivered to a subscribed webhook by the dispatcher of another process, with a signature', async () => {
  const { api } = beside
  const engine = await dispatcherAlone(api)
  onTestFinished(() => engine.stop())
  const receiver = await receiverFor()
  const owner = await api.person([{ orgId, role: 'owner' }])
  const webhooks = `${api.url}/api/v1/organizations/${orgId}/webhooks`
  const made = await call(webhooks, { token: owner.token, body: { url: receiver.url, event_types: ['invoice.paid'] } })
  expect(made.status).toBe(201)
  const ended = await keyhook(event('{"invoice_id":"inv_9"}', '--json'), beside.environment)
  expect(ended).toMatchObject({ code: 0, stderr: '' })
  const { id } = JSON.parse(ended.stdout)
  await until(() => receiver.received.length === 1)
  expect(eventIdOf(receiver.received[0]!)).toBe(id)
  expect(receiver.received[0]!.headers['x-service-event']).toBe('invoice.paid')
})

test('an operator token from the command line is valid for /operator/v1 only', async () => {
  const { api } = beside
  const token = (await beside.run('token', 'issue', '--operator', '--ttl', '5m')).stdout.trim()
  expect((await beside.json<{ token: string }>('token', 'issue', '--operator')).token).toMatch(
    /^[\w-]+\.[\w-]+\.[\w-]+$/,
  )
  const body = { organization_id: orgId, type: 'invoice.paid', data: { a: 1 }, id: 'over-http' }
  const published = await call<{ id: string }>(`${api.url}/operator/v1/events`, { token, body })
  expect([published.status, published.body.id]).toEqual([202, 'over-http'])
  // The command line and HTTP share one set of ids.
  expect(await beside.json(...event('{"a":1}', '--id', 'over-http'))).toEqual({ id: 'over-http' })
  expect((await call(`${api.url}/api/v1/organizations`, { token })).status).toBe(401)
  const owner = await api.person([{ orgId, role: 'owner' }])
  expect((await call(`${api.url}/operator/v1/events`, { token: owner.token, body })).status).toBe(403)
})

const nowhere = newId('org')
type Mistake = [what: string, args: () => string[], line: RegExp]
const instead = (was: string, is: string) => () => event('{}').map((word) => (word === was ? is : word))
const mistakes: Mistake[] = [
  [
    'an unknown type',
    instead('invoice.paid', 'invoice.lost'),
    /^--type: "invoice\.lost" is not one of database\.created, /,
  ],
  ['malformed JSON', () => event('{a:1}'), /^--data: the value is not JSON$/],
  ['JSON that is a list', () => event('[1]'), /^--data: the value must be a JSON object$/],
  ['JSON that is null', () => event('null'), /^--data: the value must be a JSON object$/],
  ['JSON that is a number', () => event('7'), /^--data: the value must be a JSON object$/],
  ['a number that is passed on as it is', () => event('1.0'), /^--data: the value must be a JSON object$/],
  [
    'an organization that does not exist',
    () => event('{}').map((word) => (word === orgId ? nowhere : word)),
    /^There is no organization org_/,
  ],
  [
    'an organization that is none',
    () => event('{}').map((word) => (word === orgId ? 'acme' : word)),
    /^--org: "acme" is not an id such as org_/,
  ],
  ['an id that a header could not hold', () => event('{}', '--id', 'a b'), /^--id: "a b" may have letters/],
  ['an id that is too long', () => event('{}', '--id', 'x'.repeat(129)), /at most 128/],
  ['no type', () => ['event', 'publish', '--org', orgId, '--data', '{}'], /--type/],
  ['no data', () => ['event', 'publish', '--org', orgId, '--type', 'invoice.paid'], /--data/],
  ['half a command', () => ['event'], /keyhook event --help/],
]

describe('a mistake prints one line, exits 2 and changes nothing', () => {
  test.each(mistakes)('%s', async (_, args, line) => {
    const before = await countRows(beside.api.db)
    const ended = await beside.run(...args())
    expect(ended.stderr.replace(/\n$/, '')).toMatch(line)
    expect(ended.stderr.match(/\n/g), ended.stderr).toHaveLength(1)
    expect([ended.code, ended.stdout]).toEqual([2, ''])
    expect(await countRows(beside.api.db)).toEqual(before)
  })
})
