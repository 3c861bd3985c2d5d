import { beforeAll, expect, test } from 'vitest'
import { ensurePartitions } from '../../src/delivery/retention-sql.ts'
import { uuid7 } from '../../src/lib/ids.ts'
import { call, type Reply } from '../kit/client.ts'
import { ownedApi } from '../kit/owned-api.ts'

/*
 * Lists with large records: responses of 16 KiB of control characters, six bytes each in JSON, or of characters that are three
 * bytes in UTF-8 and one unit in JavaScript.
 */

const api = ownedApi()
const attempts = 130
let history: string
let foreign: string

beforeAll(async () => {
  await api.db`
    insert into keyhook.events (org_id, seq, sequence, id, type, body) values (${api.orgId}, 1, 1, 'evt_1', 'database.created', '{}')`
  await ensurePartitions(api.db, Date.now())
  history = await historyOf('\x01'.repeat(16_384))
  foreign = await historyOf('語'.repeat(5_461))
})

async function historyOf(said: string): Promise<string> {
  const webhooks = `/api/v1/organizations/${api.orgId}/webhooks`
  const body = { url: 'https://example.com/', event_types: ['database.created'] }
  const { id } = (await call<{ id: string }>(api.url + webhooks, { token: api.owner.token, body })).body
  const ids = Array.from({ length: attempts }, () => uuid7(Date.now()))
  await api.db`
    insert into keyhook.attempts (org_id, lane_id, id, event_seq, attempt, status, started_at, request_headers,
      response_status, response_headers, response_body, response_complete)
    select ${api.orgId}, w.lane_id, i.id, 1, i.n, 'succeeded', now(), '', 200, '', ${said}, true
    from unnest(${ids}::uuid[]) with ordinality as i (id, n) cross join keyhook.webhooks w where w.id = ${id}`
  return `${webhooks}/${id}/deliveries`
}

type Attempt = { attempt: number }
const newestFirst = Array.from({ length: attempts }, (_, i) => attempts - i)
const get = (path: string): Promise<Reply<Attempt[]>> => call(api.url + path, { token: api.owner.token })
const numbers = (records: readonly Attempt[]) => records.map((one) => one.attempt)

// Counting characters instead of bytes would make the second page three times too large.
test.each([
  ['control characters', () => history],
  ['characters of three bytes', () => foreign],
])('a page of large records (%s) is shorter than its limit, and its Link leads to the next', async (_what, path) => {
  const seen: Attempt[] = []
  let next: string | undefined = `${path()}?limit=1000`
  while (next !== undefined) {
    const { text, body, headers } = await get(next)
    expect(Buffer.byteLength(text)).toBeLessThan(1.2e6)
    seen.push(...body)
    next = /^<([^>]+)>; rel="next"$/.exec(headers.get('link') ?? '')?.[1]
  }
  expect(numbers(seen)).toEqual(newestFirst)
})

test('the whole list is sent in chunks, and is complete', async () => {
  const { text, body, headers } = await get(history)
  expect(headers.get('content-length')).toBeNull()
  expect(text.length).toBeGreaterThan(attempts * 6 * 16_384)
  expect(numbers(body)).toEqual(newestFirst)
})
