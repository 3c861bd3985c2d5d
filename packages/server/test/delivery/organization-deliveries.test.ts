import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { compile } from '../../src/db/statement.ts'
import { summarizeAttempts } from '../../src/delivery/history-sql.ts'
import { attemptsOfPage } from '../../src/delivery/organization-history-sql.ts'
import { ensurePartitions } from '../../src/delivery/retention-sql.ts'
import { attemptIdOf, newId, type OrgId, uuid7, type WebhookId } from '../../src/lib/ids.ts'
import { call } from '../kit/client.ts'
import { type Documented, readDocumented } from '../kit/documented.ts'
import { type Person, startApi, type TestApi } from '../kit/installation.ts'

/*
 * Attempts of all webhooks of an organization, and their summary. The attempts are written into the table, at known times.
 */

const hour = 3_600_000
// The start of an hour, so that attempts are in known buckets.
const base = Math.floor(Date.now() / hour) * hour - 3 * hour

let api: TestApi
let documented: Documented
let orgId: OrgId
let owner: Person
let a: WebhookId
let b: WebhookId
const uuids: Record<string, string> = {}

beforeAll(async () => {
  api = await startApi()
  documented = await readDocumented(api.url)
  orgId = await api.organization()
  owner = await api.person([{ orgId, role: 'owner' }])
  await ensurePartitions(api.db, base)
  await ensurePartitions(api.db, Date.now())
  a = await webhook()
  b = await webhook()
  await event(1, 'database.created')
  await event(2, 'backup.failed')
  await attempt('first', a, 1, 'failed', base, 100_000)
  await attempt('second', a, 1, 'succeeded', base + 10 * 60_000, 10_000)
  await attempt('third', b, 2, 'succeeded', base + 90 * 60_000, 20_000)
  await attempt('fourth', b, 2, 'interrupted', base + 91 * 60_000, null)
  await api.db`
    update keyhook.attempts set response_status = 503, error_code = 'status_not_successful' where id = ${uuids.first!}`
  await api.db`update keyhook.attempts set response_status = 200 where id in (${uuids.second!}, ${uuids.third!})`
  await api.db`update keyhook.attempts set error_code = 'interrupted' where id = ${uuids.fourth!}`
})
afterAll(() => api.close())

async function webhook(inOrg = orgId, token = owner.token): Promise<WebhookId> {
  const body = { url: 'https://example.com/', event_types: ['database.created'] }
  const made = await call<{ id: WebhookId }>(`${api.url}/api/v1/organizations/${inOrg}/webhooks`, { token, body })
  return made.body.id
}

const events = [newId('evt'), newId('evt')]
const event = (seq: number, type: string) => api.db`
  insert into keyhook.events (org_id, seq, id, type, body, sequence)
  values (${orgId}, ${seq}, ${events[seq - 1]!}, ${type}, '{}', ${seq})`

async function attempt(name: string, to: WebhookId, seq: number, status: string, ms: number, us: number | null) {
  uuids[name] = uuid7(ms)
  await api.db`
    insert into keyhook.attempts (lane_id, id, org_id, event_seq, attempt, status, started_at, duration_us, request_headers)
    select lane_id, ${uuids[name]}, org_id, ${seq}, 1, ${status}, ${new Date(ms)}, ${us}, ''
    from keyhook.webhooks where id = ${to}`
}

const path = '/platform/v1/organizations/{org_id}/deliveries'
const url = () => `${api.url}/platform/v1/organizations/${orgId}/deliveries`
const nameOf = (id: string) => Object.keys(uuids).find((name) => attemptIdOf(uuids[name]!) === id)
const iso = (ms: number) => new Date(ms).toISOString()

describe('the list', () => {
  const names = async (query: string) => {
    const reply = await documented.call<{ id: string; webhook_id: string }[]>('GET', path, `${url()}${query}`, {
      token: owner.token,
    })
    expect(reply.status).toBe(200)
    return reply.body.map(({ id }) => nameOf(id))
  }

  test('has the attempts of all webhooks, newest first', async () => {
    expect(await names('')).toEqual(['fourth', 'third', 'second', 'first'])
  })

  test.each<[query: () => string, expected: string[]]>([
    [() => `?webhook_id=${a}`, ['second', 'first']],
    [() => '?status=succeeded', ['third', 'second']],
    [() => '?status=sending', []],
    [() => '?event_types=backup.failed', ['fourth', 'third']],
    [() => `?since=${iso(base + 10 * 60_000)}&until=${iso(base + hour + 31 * 60_000)}`, ['third', 'second']],
    [() => '?status=failed&event_types=backup.failed,database.failed', []],
    [() => `?webhook_id=${newId('wh')}`, []],
    [() => `?event_id=${events[0]}`, ['second', 'first']],
    [() => `?event_id=${events[0]}&event_types=backup.failed`, []],
    [() => `?event_id=${newId('evt')}`, []],
    [() => '?response_status=503', ['first']],
    [() => '?response_status=5xx', ['first']],
    [() => '?response_status=2xx', ['third', 'second']],
    [() => '?response_status=404', []],
    [() => '?response_status=5xx&status=succeeded', []],
    [() => '?error_code=status_not_successful', ['first']],
    [() => '?error_code=interrupted', ['fourth']],
    [() => '?since=0001-01-01T00:00:00Z&until=1960-01-01T00:00:00Z', []],
  ])('is filtered (%#)', async (query, expected) => {
    expect(await names(query())).toEqual(expected)
  })

  test('has pages that follow each other across webhooks', async () => {
    const first = await call<{ id: string }[]>(`${url()}?limit=3`, { token: owner.token })
    expect(first.body.map(({ id }) => nameOf(id))).toEqual(['fourth', 'third', 'second'])
    const next = /<([^>]+)>; rel="next"/.exec(first.headers.get('link')!)![1]!
    const second = await call<{ id: string }[]>(`${api.url}${next}`, { token: owner.token })
    expect(second.body.map(({ id }) => nameOf(id))).toEqual(['first'])
  })

  test('has attempts in flight, in the order of their times among the others', async () => {
    const ms = base + hour
    const id = uuid7(ms)
    uuids.sending = id
    await api.db`
      insert into keyhook.in_flight (lane_id, event_seq, org_id, id, lease_token, attempt, try, started_at)
      select lane_id, 2, org_id, ${id}, 1, 3, 1, ${new Date(ms)} from keyhook.webhooks where id = ${a}`
    const { body } = await call<{ id: string; status: string }[]>(`${url()}?status=sending`, { token: owner.token })
    expect(body.map(({ id, status }) => [id, status])).toEqual([[attemptIdOf(id), 'sending']])
    expect(await names('')).toEqual(['fourth', 'third', 'sending', 'second', 'first'])
    expect(await names('?limit=3')).toEqual(['fourth', 'third', 'sending'])
    expect(await names(`?event_id=${events[1]}`)).toEqual(['fourth', 'third', 'sending'])
    expect(await names('?response_status=2xx')).toEqual(['third', 'second'])
    expect(await names('?response_status=none')).toEqual([])
    const one = await documented.call<{ attempt: number }>(
      'GET',
      `${path}/{delivery_id}`,
      `${url()}/${attemptIdOf(id)}`,
      {
        token: owner.token,
      },
    )
    expect([one.status, one.body.attempt]).toEqual([200, 3])
    await api.db`delete from keyhook.in_flight`
  })

  test('refuses filters that it cannot read', async () => {
    for (const query of [
      '?since=yesterday',
      '?status=lost',
      '?webhook_id=usr_x',
      '?event_types=x',
      '?type=x',
      '?response_status=6xx',
      '?response_status=50',
      '?error_code=x',
    ]) {
      expect((await call(`${url()}${query}`, { token: owner.token })).status, query).toBe(422)
    }
  })
})

test('what is rare in a long history is found by an index, and not by reading the history', async () => {
  const long = await api.organization()
  const { token } = await api.person([{ orgId: long, role: 'owner' }])
  for (const id of [await webhook(long, token), await webhook(long, token)]) {
    await api.db`
      insert into keyhook.attempts (lane_id, id, org_id, event_seq, attempt, status, started_at, request_headers)
      select w.lane_id, t.id, w.org_id, n, 1, case when n % 5000 = 0 then 'failed' else 'succeeded' end, now(), ''
      from keyhook.webhooks w, unnest(${Array.from({ length: 20_000 }, (_, n) => uuid7(base + n))}::uuid[])
        with ordinality as t (id, n)
      where w.id = ${id}`
  }
  await api.db`
    insert into keyhook.events (org_id, seq, id, type, body, sequence)
    select ${long}, n, 'evt_' || lpad(n::text, 26, '0'), case when n % 10000 = 0 then 'invoice.paid' else 'backup.failed' end, '{}', n
    from generate_series(1, 20000) n`
  await api.db`analyze keyhook.attempts, keyhook.events`
  const none = { eventId: null, responseStatus: null, errorCode: null, sinceMs: null, untilMs: null }
  const all = { webhookId: null, status: null, types: null, isRare: false, ...none }
  const ofEvent = `evt_${'7'.padStart(26, '0')}`
  const rare: [query: string, found: number, filter: Partial<Parameters<typeof attemptsOfPage>[2]>][] = [
    ['status=failed', 8, { status: 'failed' }],
    ['status=interrupted', 0, { status: 'interrupted' }],
    ['event_types=invoice.paid', 4, { types: ['invoice.paid'], isRare: true }],
    ['event_types=invoice.paid&status=succeeded', 0, { types: ['invoice.paid'], status: 'succeeded', isRare: true }],
    [`event_id=${ofEvent}`, 2, { eventId: ofEvent, isRare: true }],
    ['response_status=none', 8, { responseStatus: 'none' }],
    ['error_code=timeout', 0, { errorCode: 'timeout' }],
    ['event_types=backup.failed&status=failed', 4, { types: ['backup.failed'], status: 'failed' }],
  ]
  for (const [query, found, filter] of rare) {
    const { body } = await call<object[]>(`${api.url}/platform/v1/organizations/${long}/deliveries?${query}`, { token })
    expect([query, body.length]).toEqual([query, found])
    const statement = attemptsOfPage(api.db, long, { ...all, ...filter }, { before: null, limit: 50 })
    const { text, values } = compile(statement)
    const [row] = await api.db.unsafe(`explain (analyze, format json) ${text}`, values as string[])
    expect([query, rowsRead(row!['QUERY PLAN'][0].Plan)]).toEqual([query, expect.toSatisfy((n: number) => n < 1_000)])
  }
})

type Plan = { 'Actual Rows': number; 'Actual Loops': number; 'Rows Removed by Filter'?: number; Plans?: Plan[] }

/** All rows that the nodes of a plan returned or left out. */
const rowsRead = ({ 'Rows Removed by Filter': removed = 0, Plans = [], ...plan }: Plan): number =>
  (plan['Actual Rows'] + removed) * plan['Actual Loops'] + Plans.reduce((sum, one) => sum + rowsRead(one), 0)

test('one attempt is read by its id, and not from another organization', async () => {
  const other = await api.organization()
  const stranger = await api.person([{ orgId: other, role: 'owner' }])
  const id = attemptIdOf(uuids.first!)
  const one = await documented.call<{ id: string; webhook_id: string }>(
    'GET',
    `${path}/{delivery_id}`,
    `${url()}/${id}`,
    { token: owner.token },
  )
  expect(one.body).toMatchObject({ id, webhook_id: a, status: 'failed' })
  const theirs = `${api.url}/platform/v1/organizations/${other}/deliveries`
  expect((await call(`${theirs}/${id}`, { token: stranger.token })).status).toBe(404)
  expect((await call<[]>(theirs, { token: stranger.token })).body).toEqual([])
})

type Outcomes = { succeeded: number; failed: number; p50_ms: number | null; p95_ms: number | null }
type Summary = Outcomes & {
  since: string
  buckets: (Outcomes & { at: string })[]
  webhooks: (Outcomes & { webhook_id: string })[]
}

describe('the summary', () => {
  const there = '/platform/v1/organizations/{org_id}/delivery-summary'
  const at = (org = orgId) => `${api.url}/platform/v1/organizations/${org}/delivery-summary`
  const summary = async (query: string) =>
    (await documented.call<Summary>('GET', there, `${at()}${query}`, { token: owner.token })).body

  test('counts outcomes and durations by time and by webhook', async () => {
    const { since, buckets, webhooks, ...total } = await summary(`?since=${iso(base)}&until=${iso(base + 3 * hour)}`)
    expect(total).toMatchObject({ succeeded: 2, failed: 2, p50_ms: 20, p95_ms: 100 })
    expect(since).toBe(iso(base))
    expect(buckets.map(({ at, succeeded, failed }) => [at, succeeded, failed])).toEqual([
      [iso(base), 1, 1],
      [iso(base + hour), 1, 1],
    ])
    expect(Object.fromEntries(webhooks.map(({ webhook_id, p95_ms }) => [webhook_id, p95_ms]))).toEqual({
      [a]: 100,
      [b]: 20,
    })
  })

  test('is about one webhook on request, with intervals of any length', async () => {
    const body = await summary(`?since=${iso(base)}&until=${iso(base + hour)}&bucket_seconds=600&webhook_id=${a}`)
    expect(body.buckets.map(({ at }) => at)).toEqual([iso(base), iso(base + 600_000)])
  })

  test('is empty for an organization without attempts', async () => {
    const other = await api.organization()
    const { token } = await api.person([{ orgId: other, role: 'member' }])
    const { body } = await call<Summary>(at(other), { token })
    expect(body).toMatchObject({ succeeded: 0, failed: 0, p50_ms: null, p95_ms: null, buckets: [], webhooks: [] })
  })

  test('refuses a range with too many intervals, and one that ends before it starts', async () => {
    for (const query of ['?since=2020-01-01T00:00:00Z', `?since=${iso(base)}&until=${iso(base - 2 * hour)}`]) {
      expect((await call(`${at()}${query}`, { token: owner.token })).status, query).toBe(422)
    }
  })

  test('counts the newest attempts, and says from when on it has all of them, of every webhook', async () => {
    const many = await api.organization()
    const { token } = await api.person([{ orgId: many, role: 'owner' }])
    const hook = await call<{ id: WebhookId }>(`${api.url}/api/v1/organizations/${many}/webhooks`, {
      token,
      body: { url: 'https://example.com/', event_types: ['database.created'] },
    })
    for (let i = 0; i < 30; i++) await attempt(`many ${i}`, hook.body.id, 1, 'succeeded', base + i * 60_000, 1_000)
    const range = { webhookId: null, sinceMs: base, untilMs: base + hour, bucketSeconds: 3_600 }
    const total = async (max?: number) => {
      const rows = await summarizeAttempts(api.db, many, range, max)
      return rows.find((row) => row.at === null && row.webhook_id === null)!
    }
    expect(await total()).toMatchObject({ succeeded: 30, cut_at: null })
    expect(await total(20)).toMatchObject({ succeeded: 20, cut_at: new Date(base + 10 * 60_000) })
    const quiet = await webhook(many, token)
    await attempt('quiet, too early', quiet, 1, 'failed', base + 9 * 60_000, 1_000)
    await attempt('quiet', quiet, 1, 'failed', base + 11 * 60_000, 1_000)
    expect(await total(40)).toMatchObject({ succeeded: 20, failed: 1, cut_at: new Date(base + 10 * 60_000) })
  })
})
