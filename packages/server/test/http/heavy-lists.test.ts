import { beforeAll, expect, test } from 'vitest'
import { uuid7 } from '../../src/kernel/uuid7.ts'
import { ensurePartitions } from '../../src/store/partitions.ts'
import { call, type Reply } from '../support/client.ts'
import { ownedApi } from '../support/owned-api.ts'

/*
 * Lists whose records are as large as receivers make them: 16 KiB of control characters, six bytes each in JSON.
 */

const api = ownedApi()
const attempts = 130
let history: string

beforeAll(async () => {
  const webhooks = `/api/v1/organizations/${api.orgId}/webhooks`
  const body = { url: 'https://example.com/', event_types: ['database.created'] }
  const { id } = (await call<{ id: string }>(api.url + webhooks, { token: api.owner.token, body })).body
  history = `${webhooks}/${id}/deliveries`
  await ensurePartitions(api.db, Date.now())
  const ids = Array.from({ length: attempts }, () => uuid7(Date.now()))
  await api.db`
    insert into keyhook.events (org_id, seq, id, type, body) values (${api.orgId}, 1, 'evt_1', 'database.created', '{}')`
  await api.db`
    insert into keyhook.attempts (org_id, lane_id, id, event_seq, attempt, status, started_at, request_headers,
      response_status, response_headers, response_body, response_complete)
    select ${api.orgId}, w.lane_id, i.id, 1, i.n, 'succeeded', now(), '', 200, '', repeat(chr(1), 16384), true
    from unnest(${ids}::uuid[]) with ordinality as i (id, n) cross join keyhook.webhooks w where w.id = ${id}`
})

type Attempt = { attempt: number }
const newestFirst = Array.from({ length: attempts }, (_, i) => attempts - i)
const get = (path: string): Promise<Reply<Attempt[]>> => call(api.url + path, { token: api.owner.token })
const numbers = (records: readonly Attempt[]) => records.map((one) => one.attempt)

test('a page of large records is shorter than it was asked to be, and its link leads on', async () => {
  const seen: Attempt[] = []
  let next: string | undefined = `${history}?limit=1000`
  while (next !== undefined) {
    const { text, body, headers } = await get(next)
    expect(text.length).toBeLessThan(2e6)
    seen.push(...body)
    next = /^<([^>]+)>; rel="next"$/.exec(headers.get('link') ?? '')?.[1]
  }
  expect(numbers(seen)).toEqual(newestFirst)
})

test('the whole list is sent in pieces, and is whole', async () => {
  const { text, body, headers } = await get(history)
  expect(headers.get('content-length')).toBeNull()
  expect(text.length).toBeGreaterThan(attempts * 6 * 16_384)
  expect(numbers(body)).toEqual(newestFirst)
})
