import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { call } from '../kit/client.ts'
import { orderLost, orderShipped } from '../kit/order-types.ts'
import { type CommandsBeside, commandsBeside } from './support/commands-beside.ts'

let beside: CommandsBeside
let folder: string

beforeAll(async () => {
  beside = await commandsBeside()
  folder = await mkdtemp(join(tmpdir(), 'keyhook-event-types-'))
})
afterAll(async () => {
  await beside.close()
  await rm(folder, { recursive: true, force: true })
})

async function fileOf(content: unknown): Promise<string> {
  const file = join(folder, 'event-types.json')
  await writeFile(file, typeof content === 'string' ? content : JSON.stringify(content))
  return file
}
const apply = async (content: unknown, ...more: string[]) =>
  beside.run('event-types', 'apply', '--file', await fileOf(content), ...more)
const declared = async () => (await beside.json<{ name: string }[]>('event-types', 'list')).map(({ name }) => name)

test('a file is applied as a whole; a dry run shows the difference and changes nothing', async () => {
  expect(await declared()).toEqual([])
  const dry = await apply([orderShipped, orderLost], '--dry-run')
  expect([dry.code, dry.stdout]).toEqual([
    0,
    '+ order.shipped\n+ order.lost_in_transit\nWould be added: 2, changed: 0, removed: 0, unchanged: 0.\n',
  ])
  expect(await declared()).toEqual([])
  expect((await apply([orderShipped, orderLost])).code).toBe(0)
  // What is listed can be applied again.
  expect(await beside.json('event-types', 'list')).toEqual([orderLost, orderShipped])
  const next = [
    { ...orderShipped, description: 'Sent.', example: { order_id: 'o-2' } },
    { ...orderLost, name: 'order.found' },
  ]
  const { stdout } = await apply(next, '--dry-run', '--json')
  expect(JSON.parse(stdout)).toEqual({
    added: ['order.found'],
    changed: [{ name: 'order.shipped', fields: ['description', 'example'] }],
    removed: ['order.lost_in_transit'],
    unchanged: [],
    subscribed: [],
    applied: false,
  })
  const applied = await apply(next)
  expect(applied.stdout).toContain('- order.lost_in_transit\nAdded: 1, changed: 1, removed: 1, unchanged: 0.\n')
  expect(await declared()).toEqual(['order.found', 'order.shipped'])
  expect((await apply(next)).stdout).toBe('Added: 0, changed: 0, removed: 0, unchanged: 2.\n')
})

test('every problem of a file is printed, with exit code 2, and nothing is changed', async () => {
  await apply([orderShipped])
  const { code, stdout, stderr } = await apply([
    { ...orderLost, name: 'invoice.paid' },
    { ...orderShipped, example: {} },
  ])
  expect([code, stdout]).toEqual([2, ''])
  const file = join(folder, 'event-types.json')
  expect(stderr).toBe(
    `${file}: invoice.paid: name: is one of the six types of the interface\n${file}: order.shipped: example: must have required property 'order_id'\n`,
  )
  expect(await declared()).toEqual(['order.shipped'])
  const missing = await beside.run('event-types', 'apply', '--file', join(folder, 'nothing.json'))
  expect([missing.code, missing.stderr]).toEqual([2, expect.stringMatching(/^--file: ENOENT/)])
})

test('a type that webhooks subscribe to is removed with --force only', async () => {
  await apply([orderShipped])
  const { api } = beside
  const orgId = await api.organization()
  const { token } = await api.person([{ orgId, role: 'owner' }])
  const body = { url: 'https://example.com/', event_types: ['order.shipped'] }
  await call(`${api.url}/api/v1/organizations/${orgId}/webhooks`, { token, body })
  const refused = await apply([])
  expect([refused.code, refused.stderr]).toEqual([2, expect.stringMatching(/order\.shipped \(1\).*--force/)])
  expect((await apply([], '--dry-run')).stdout).toContain('- order.shipped  (webhooks subscribed to it: 1)\n')
  expect(await declared()).toEqual(['order.shipped'])
  expect((await apply([], '--force')).code).toBe(0)
  expect(await declared()).toEqual([])
})

test('an event of a declared type is published from a shell, if its data matches', async () => {
  await apply([orderShipped])
  const orgId = await beside.api.organization()
  const publish = (type: string, data: object) =>
    beside.run('event', 'publish', '--org', orgId, '--type', type, '--data', JSON.stringify(data))
  expect((await publish('order.shipped', { order_id: 'o-9' })).stdout).toMatch(/^Published evt_/)
  const wrong = await publish('order.shipped', { order_id: 9 })
  expect([wrong.code, wrong.stderr]).toEqual([2, 'data.order_id: must be a string\n'])
  const unknown = await publish('order.sent', {})
  expect([unknown.code, unknown.stderr]).toEqual([
    2,
    expect.stringMatching(/^--type: "order.sent" is not one of .*order\.shipped\n$/),
  ])
})

test('optional types are switched by name; a file neither removes them nor declares their names', async () => {
  await apply([], '--force')
  const states = async () =>
    (await beside.json<{ name: string; enabled: boolean }[]>('event-types', 'optional'))
      .filter(({ enabled }) => enabled)
      .map(({ name }) => name)
  expect(await states()).toEqual([])
  const enable = (types: string) => beside.run('event-types', 'enable', '--types', types)
  expect((await enable('key.created,key.lost')).stderr).toMatch(/^--types: "key.lost" is not one of key.created/)
  expect((await enable('key.created, key.revoked')).stdout).toBe('Enabled: key.created, key.revoked.\n')
  expect(await states()).toEqual(['key.created', 'key.revoked'])
  expect((await apply([orderLost])).stdout).toContain('Added: 1, changed: 0, removed: 0, unchanged: 0.\n')
  expect((await apply([])).stdout).toContain('removed: 1')
  expect(await states()).toEqual(['key.created', 'key.revoked'])
  expect(await declared()).toEqual([])
  expect((await apply([{ ...orderShipped, name: 'key.created' }])).stderr).toContain('is a type of Keyhook itself')

  const { api } = beside
  const orgId = await api.organization()
  const { token } = await api.person([{ orgId, role: 'owner' }])
  const body = { url: 'https://example.com/', event_types: ['key.revoked', 'invoice.paid'] }
  expect((await call(`${api.url}/api/v1/organizations/${orgId}/webhooks`, { token, body })).status).toBe(201)
  const disable = (...more: string[]) => beside.run('event-types', 'disable', '--types', 'key.revoked', ...more)
  expect((await disable()).stderr).toMatch(/key\.revoked \(1\).*--force/)
  expect(await states()).toEqual(['key.created', 'key.revoked'])
  expect((await disable('--force')).code).toBe(0)
  expect(await states()).toEqual(['key.created'])
})
