import { beforeAll, expect, test } from 'vitest'
import type { EventType } from '../../src/delivery/events.ts'
import { publishEvents } from '../../src/delivery/publish.ts'
import { deleteFinishedEvents } from '../../src/delivery/retention-sql.ts'
import { newId, type OrgId } from '../../src/lib/ids.ts'
import { call } from '../kit/client.ts'
import { ownedApi } from '../kit/owned-api.ts'

const api = ownedApi()
const template = '/platform/v1/organizations/{org_id}/events'
type Listed = { sequence: number; id: string; type: string; created_at: string; body: string }

const publishAll = (orgId: OrgId, types: EventType[]) =>
  publishEvents(
    api.db,
    orgId,
    types.map((type) => ({ id: newId('evt'), type, body: `{"type":"${type}"}` })),
  )
const list = <T = Listed[]>(query = '', orgId: OrgId = api.orgId, token = api.owner.token) =>
  api.documented.call<T>('GET', template, `${api.url}/platform/v1/organizations/${orgId}/events${query}`, { token })
const numbers = async (query: string, orgId?: OrgId) => (await list(query, orgId)).body.map((one) => one.sequence)

beforeAll(async () => {
  await publishAll(api.orgId, [
    'database.created',
    'backup.failed',
    'invoice.paid',
    'backup.failed',
    'database.created',
  ])
})

test('events are listed newest first with the body that is sent', async () => {
  const { body } = await list()
  expect(body.map((one) => one.sequence)).toEqual([5, 4, 3, 2, 1])
  const [row] = await api.db`select id, body from keyhook.events where org_id = ${api.orgId} and sequence = 2`
  expect(body[3]).toMatchObject({ sequence: 2, type: 'backup.failed', ...row })
})

test('a list is limited by numbers, times and types, in either order', async () => {
  expect(await numbers('?after=1&before=4&order=asc')).toEqual([2, 3])
  expect(await numbers('?event_types=invoice.paid,backup.failed')).toEqual([4, 3, 2])
  await api.db`update keyhook.events set created_at = '2026-01-01T00:00:00Z' where org_id = ${api.orgId} and sequence = 2`
  expect(await numbers('?until=2026-01-01T00:00:01Z')).toEqual([2])
  expect(await numbers('?since=2026-01-01T00:00:00.001Z')).toEqual([5, 4, 3, 1])
  expect(await numbers('?after=5')).toEqual([])
})

test.each(['asc', 'desc'])('pages in %s order have every event once', async (order) => {
  const found: number[] = []
  let next: string | null = `/platform/v1/organizations/${api.orgId}/events?order=${order}&limit=2`
  while (next !== null) {
    const page: Awaited<ReturnType<typeof call<Listed[]>>> = await call(api.url + next, { token: api.owner.token })
    found.push(...page.body.map((one) => one.sequence))
    next = /<([^>]+)>/.exec(page.headers.get('link') ?? '')?.[1] ?? null
  }
  expect(found).toEqual(order === 'asc' ? [1, 2, 3, 4, 5] : [5, 4, 3, 2, 1])
})

test('a test event is not in the list', async () => {
  const webhooks = `${api.url}/api/v1/organizations/${api.orgId}/webhooks`
  const token = api.owner.token
  const body = { url: 'https://example.com/', event_types: ['invoice.paid'] }
  const webhook = (await call<{ id: string }>(webhooks, { token, body })).body
  const tested = `${api.url}/platform/v1/organizations/${api.orgId}/webhooks/${webhook.id}/test`
  expect((await call(tested, { token, body: { event_type: 'invoice.paid' } })).status).toBe(202)
  expect(await numbers('')).toEqual([5, 4, 3, 2, 1])
})

test.each([
  ['event_types=database.create', 'event_types'],
  ['event_types=', 'event_types'],
  ['since=yesterday', 'since'],
  ['until=2026-02-30T00:00:00Z', 'until'],
  ['after=-1', 'after'],
  ['after=x', 'after'],
  ['order=up', 'order'],
  ['include=all', 'include'],
  ['limit=2&cursor=MA', 'cursor'],
])('%s is refused by name', async (query, parameter) => {
  const { status, body } = await list<{ errors: { parameter: string }[] }>(`?${query}`)
  expect([status, body.errors.map((one) => one.parameter)]).toEqual([422, [parameter]])
})

test('outcomes come with each event if they are asked for, to those who may read deliveries', async () => {
  const orgId = await api.organization('Outcomes')
  const { token } = await api.person([{ orgId, role: 'owner' }])
  const webhook = { url: 'https://example.com/', event_types: ['invoice.paid'] }
  await call(`${api.url}/api/v1/organizations/${orgId}/webhooks`, { token, body: webhook })
  await publishAll(orgId, ['invoice.paid', 'backup.failed'])
  type WithOutcomes = { outcomes?: object }[]
  const outcomes = async (query: string, by = token) =>
    (await list<WithOutcomes>(query, orgId, by)).body.map((one) => one.outcomes)
  const none = { succeeded: 0, failing: 0, failed: 0, waiting: 0, expired: 0 }
  expect(await outcomes('?include=outcomes')).toEqual([none, { ...none, waiting: 1 }])
  expect(await outcomes('')).toEqual([undefined, undefined])
  const body = { name: 'events only', permissions: ['events:read'] }
  const key = await call<{ api_key: string }>(`${api.url}/platform/v1/organizations/${orgId}/api-keys`, { token, body })
  expect(await outcomes('?include=outcomes', key.body.api_key)).toEqual([undefined, undefined])
})

test('a position before what retention has deleted is answered 410 with the oldest number', async () => {
  const orgId = await api.organization('Old')
  const { token } = await api.person([{ orgId, role: 'member' }])
  await publishAll(
    orgId,
    Array.from({ length: 6 }, () => 'invoice.paid' as const),
  )
  // The first is kept by a delivery that waits, and so is not among those that retention deletes.
  await api.db`insert into keyhook.deliveries (org_id, event_seq, lane_id, sequence) select ${orgId}, 1, max(id), 1 from keyhook.lanes`
  await deleteFinishedEvents(api.db, orgId, { afterSeq: 0, upToSeq: 3 })
  const kept = await api.db`select sequence::int from keyhook.events where org_id = ${orgId} order by 1`
  expect(kept.map((row) => row.sequence)).toEqual([1, 4, 5, 6])
  const expired = await list<{ code: string; oldest_sequence: number }>('?after=2', orgId, token)
  expect(expired).toMatchObject({ status: 410, body: { code: 'events.expired', oldest_sequence: 4 } })
  // Without a position the list starts at that number: the event before it is there, and others are missing.
  const all = async (query: string) => (await list(query, orgId, token)).body.map((one) => one.sequence)
  expect(await all('')).toEqual([6, 5, 4])
  expect(await all('?order=asc')).toEqual([4, 5, 6])
  expect(await all('?after=3')).toEqual([6, 5, 4])
  const cursor = Buffer.from('2').toString('base64url')
  expect((await list(`?order=asc&limit=2&cursor=${cursor}`, orgId, token)).status).toBe(410)
})

test('a list in ascending order ends at the event that was the newest when it was asked for', async () => {
  const orgId = await api.organization('Busy')
  const { token } = await api.person([{ orgId, role: 'member' }])
  await publishAll(
    orgId,
    Array.from({ length: 120 }, () => 'invoice.paid' as const),
  )
  let over = false
  const busy = (async () => {
    while (!over)
      await publishAll(
        orgId,
        Array.from({ length: 20 }, () => 'invoice.paid' as const),
      )
  })()
  const [before] = await api.db`select last_sequence::int as last from keyhook.event_counters where org_id = ${orgId}`
  const { body } = await list('?order=asc&limit=1000', orgId, token)
  const [after] = await api.db`select last_sequence::int as last from keyhook.event_counters where org_id = ${orgId}`
  over = true
  await busy
  expect(body.map((one) => one.sequence)).toEqual(body.map((_, i) => i + 1))
  expect(body.length).toBeGreaterThanOrEqual(Math.min(before!.last, 1_000))
  expect(body.length).toBeLessThanOrEqual(after!.last)
})
