import { beforeEach, describe, expect, test } from 'vitest'
import type { Problem } from '../../src/http/problems.ts'
import { call } from '../kit/client.ts'
import { ownedApi } from '../kit/owned-api.ts'
import { countRows } from '../kit/rows.ts'

const api = ownedApi()
let before: Record<string, number>

beforeEach(async () => {
  before = await countRows(api.db)
})

async function refused(path: 'api-keys' | 'webhooks', raw: string | Uint8Array, headers: Record<string, string> = {}) {
  const reply = await call<Problem>(`${api.url}/api/v1/organizations/${api.orgId}/${path}`, {
    token: api.owner.token,
    raw,
    headers,
  })
  api.documented.check('POST', `/api/v1/organizations/{org_id}/${path}`, reply)
  expect(await countRows(api.db)).toEqual(before)
  return reply
}

const hook = (changes: object): string =>
  JSON.stringify({ url: 'https://example.com/hooks', event_types: ['invoice.paid'], ...changes })

type Rule = [what: string, body: string, pointers: string[], detail?: RegExp]

const keyRules: Rule[] = [
  ['no name', '{}', ['/name'], /is required/],
  ['a name that is null', '{"name":null}', ['/name'], /must be a string/],
  ['a name that is a number', '{"name":5}', ['/name'], /must be a string/],
  ['a name that is a huge number', '{"name":1e999}', ['/name'], /must be a string/],
  ['a name that is an object', '{"name":{}}', ['/name'], /must be a string/],
  ['an empty name', '{"name":""}', ['/name']],
  ['a name of spaces', '{"name":"  "}', ['/name'], /blank/],
  ['a name of 256 characters', JSON.stringify({ name: 'x'.repeat(256) }), ['/name'], /at most 255/],
  ['a name of 256 emoji', JSON.stringify({ name: '😀'.repeat(256) }), ['/name'], /at most 255/],
  ['a NUL in the name', '{"name":"a\\u0000b"}', ['/name'], /control characters/],
  ['a line break in the name', '{"name":"a\\nb"}', ['/name'], /control characters/],
  ['a name of invisible characters', '{"name":"\u200b\ufeff"}', ['/name'], /blank/],
  ['a line separator in the name', '{"name":"a\u2028b"}', ['/name'], /control characters/],
  ['a name that turns text around', '{"name":"a\u202eb"}', ['/name'], /direction/],
  ['half a surrogate pair in the name', '{"name":"a\\ud800"}', ['/name'], /broken Unicode/],
  ['an unknown field', '{"name":"a","role":"owner"}', ['/role'], /not a known field/],
  ['an api_key of one’s own', '{"name":"a","api_key":"kh_x"}', ['/api_key'], /not a known field/],
  ['a field named __proto__', '{"name":"a","__proto__":{"role":"owner"}}', ['/__proto__'], /not a known field/],
  ['a name only on the prototype', '{"__proto__":{"name":"a"}}', ['/name', '/__proto__']],
  ['a field named constructor', '{"name":"a","constructor":{"prototype":{}}}', ['/constructor'], /not a known field/],
  ['a field name with / and ~', '{"name":"a","x/y~z":1}', ['/x~1y~0z'], /not a known field/],
  ['a field name of half a surrogate pair', '{"name":"a","\\udfff":1}', ['/\udfff'], /not a known field/],
  ['an array', '[{"name":"a"}]', [''], /must be a JSON object/],
  ['a string', '"name"', [''], /must be a JSON object/],
  ['a number', '12345678901234567890123456789', [''], /must be a JSON object/],
  ['null', 'null', [''], /must be a JSON object/],
  ['an empty body', '', [''], /must be a JSON object/],
  ['10,000 nested arrays', '['.repeat(10_000) + ']'.repeat(10_000), [''], /must be a JSON object/],
  ['10,000 nested objects as the name', `{"name":${'{"a":'.repeat(10_000)}1${'}'.repeat(10_000)}}`, ['/name']],
]

const types = /must be one of database\.created, database\.failed/
const webhookRules: Rule[] = [
  ['an empty object', '{}', ['/url', '/event_types'], /is required/],
  ['no url', '{"event_types":["invoice.paid"]}', ['/url'], /is required/],
  ['no event types', '{"url":"https://example.com/"}', ['/event_types'], /is required/],
  ['an http:// URL', hook({ url: 'http://example.com/' }), ['/url'], /https/],
  ['a URL with a user name and password', hook({ url: 'https://u:p@example.com/' }), ['/url'], /user name or password/],
  ['a URL with a user name', hook({ url: 'https://u@example.com/' }), ['/url'], /user name or password/],
  ['a URL with empty credentials', hook({ url: 'https://@example.com/' }), ['/url'], /user name or password/],
  ['a URL with a fragment', hook({ url: 'https://example.com/#x' }), ['/url'], /fragment/],
  ['a URL without a host', hook({ url: 'https://' }), ['/url'], /absolute URL/],
  ['a URL with three slashes', hook({ url: 'https:///example.com/' }), ['/url']],
  ['a URL with backslashes', hook({ url: 'https://example.com\\@evil.example/' }), ['/url']],
  ['a relative URL', hook({ url: '/hooks' }), ['/url'], /absolute URL/],
  ['a URL of another scheme', hook({ url: 'file:///etc/passwd' }), ['/url'], /https/],
  ['a javascript: URL', hook({ url: 'javascript:alert(1)' }), ['/url'], /https/],
  ['https: without slashes', hook({ url: 'https:example.com' }), ['/url'], /start with https/],
  ['a URL with a space around it', hook({ url: ' https://example.com/' }), ['/url'], /spaces/],
  ['a URL with a line break', hook({ url: 'https://example.com/\r\nX: y' }), ['/url'], /spaces/],
  ['a URL that turns text around', hook({ url: 'https://example.com/\u202eb' }), ['/url'], /invisible/],
  ['a URL with an invisible character', hook({ url: 'https://exam\u200bple.com/' }), ['/url'], /invisible/],
  ['a URL with a NUL', hook({ url: 'https://example.com/\0' }), ['/url'], /control/],
  [
    'a URL with half a surrogate pair',
    '{"url":"https://example.com/\\ud800","event_types":["invoice.paid"]}',
    ['/url'],
  ],
  ['a URL with a port out of range', hook({ url: 'https://example.com:99999/' }), ['/url'], /absolute URL/],
  ['a URL of 2,049 characters', hook({ url: `https://example.com/${'x'.repeat(2_029)}` }), ['/url'], /at most 2048/],
  ['a URL that is a number', hook({ url: 5 }), ['/url'], /must be a string/],
  ['an unknown event type', hook({ event_types: ['invoice.unpaid'] }), ['/event_types/0'], types],
  ['an event type in capitals', hook({ event_types: ['INVOICE.PAID'] }), ['/event_types/0'], types],
  ['an event type from the prototype', hook({ event_types: ['toString'] }), ['/event_types/0'], types],
  ['an empty event type', hook({ event_types: ['invoice.paid', ''] }), ['/event_types/1'], types],
  ['an event type that is null', hook({ event_types: [null] }), ['/event_types/0']],
  ['no event type in the array', hook({ event_types: [] }), ['/event_types'], /at least 1 item/],
  ['a repeated event type', hook({ event_types: ['invoice.paid', 'invoice.paid'] }), ['/event_types/1'], /repeats/],
  ['event types as a string', hook({ event_types: 'invoice.paid' }), ['/event_types'], /must be an array/],
  ['event types as an object', hook({ event_types: { 0: 'invoice.paid' } }), ['/event_types'], /must be an array/],
  ['a secret of one’s own', hook({ secret: 'whsec_x' }), ['/secret'], /not a known field/],
]

const pointersOf = (problem: Problem) =>
  problem.errors?.map((error) => ('pointer' in error ? error.pointer : error.parameter))

describe('a body that breaks a rule is answered 422 with a pointer to the field, and nothing is stored', () => {
  test.each(keyRules)('api-keys: %s', async (_, body, pointers, detail) => {
    const reply = await refused('api-keys', body)
    expect([reply.status, reply.body.code]).toEqual([422, 'request.invalid'])
    expect(pointersOf(reply.body)).toEqual(pointers)
    if (detail) expect(reply.body.errors![0]!.detail).toMatch(detail)
  })

  test.each(webhookRules)('webhooks: %s', async (_, body, pointers, detail) => {
    const reply = await refused('webhooks', body)
    expect([reply.status, reply.body.code]).toEqual([422, 'request.invalid'])
    expect(pointersOf(reply.body)).toEqual(pointers)
    if (detail) expect(reply.body.errors![0]!.detail).toMatch(detail)
  })
})

test.each([
  '0000-01-01T00:00:00Z',
  '0001-01-01T00:00:00+14:00',
  '9999-12-31T23:59:59-12:00',
  '2026-02-30T00:00:00Z',
  '2026-02-28T24:00:00Z',
  '2026-13-01T00:00:00Z',
  '2026-01-31',
])('a recovery since %s is answered 422 at the field', async (since) => {
  const hooks = `/organizations/${api.orgId}/webhooks`
  const { token } = api.owner
  const made = await call<{ id: string }>(`${api.url}/api/v1${hooks}`, { token, raw: hook({}) })
  const recover = `${api.url}/platform/v1${hooks}/${made.body.id}/recover`
  for (const [body, pointer] of [
    [{ since }, '/since'],
    [{ since: '0001-01-01T00:00:00Z', until: since, dry_run: true }, '/until'],
  ] as const) {
    const reply = await call<Problem>(recover, { token, body })
    expect([reply.status, pointersOf(reply.body)]).toEqual([422, [pointer]])
  }
  const ever = { since: '0001-01-01T00:00:00Z', until: '9999-12-31T23:59:59Z', dry_run: true }
  expect((await call(recover, { token, body: ever })).status).toBe(202)
})

test('a request without a documented body is refused with a non-empty body and accepted without one', async () => {
  const operator = await api.operatorToken()
  const silent = Object.entries(api.documented.document.paths).flatMap(([path, operations]) =>
    ['post', 'delete'].flatMap((method) => {
      const operation = operations[method] as { requestBody?: object } | undefined
      return operation === undefined || operation.requestBody ? [] : [[method.toUpperCase(), path] as const]
    }),
  )
  expect(silent).toContainEqual(['POST', '/platform/v1/organizations/{org_id}/databases/{database_id}/backups'])
  for (const [method, path] of silent) {
    const isOperators = path.startsWith('/operator/')
    const orgId = isOperators ? 'none' : api.orgId
    const url = api.url + path.replace('{org_id}', orgId).replaceAll(/\{\w+\}/g, 'none')
    const token = isOperators ? operator : api.owner.token
    for (const [raw, pointer] of [
      ['[1]', ''],
      ['"x"', ''],
      ['null', ''],
      ['{"dry_run":true}', '/dry_run'],
    ] as const) {
      const reply = await call<Problem>(url, { method, token, raw })
      api.documented.check(method, path, reply)
      expect([reply.status, pointersOf(reply.body)], `${method} ${path} ${raw}`).toEqual([422, [pointer]])
    }
    // With these the only error is that the record does not exist.
    for (const raw of [undefined, '', '{}']) {
      const reply = await call(url, { method, token, ...(raw !== undefined && { raw }) })
      expect(reply.status, `${method} ${path} ${raw}`).toBe(404)
    }
    const form = { 'content-type': 'application/x-www-form-urlencoded' }
    expect((await call(url, { method, token, headers: form })).status, `${method} ${path}, a form`).toBe(404)
  }
})

const bytes = (...parts: (string | number[])[]): Uint8Array =>
  Buffer.concat(parts.map((part) => Buffer.from(part as string)))

const malformed: [what: string, body: string | Uint8Array][] = [
  ['half an object', '{"name":"a"'],
  ['two objects', '{"name":"a"}{"name":"b"}'],
  ['a comment', '{"name":"a"/* */}'],
  ['a trailing comma', '{"name":"a",}'],
  ['single quotes', "{'name':'a'}"],
  ['NaN', '{"name":NaN}'],
  ['a raw line break in a string', '{"name":"a\nb"}'],
  ['only spaces', '   '],
  ['a byte order mark', bytes([0xef, 0xbb, 0xbf], '{"name":"a"}')],
  ['a byte that is not UTF-8', bytes('{"name":"', [0xff], '"}')],
  ['an overlong NUL', bytes('{"name":"', [0xc0, 0x80], '"}')],
  ['a surrogate in UTF-8', bytes('{"name":"', [0xed, 0xa0, 0x80], '"}')],
  ['a cut-off character', bytes('{"name":"', [0xf0, 0x9f, 0x98], '"}')],
  ['UTF-16', Buffer.from('{"name":"a"}', 'utf16le')],
]
test.each(malformed)('%s is answered 400, and nothing is stored', async (_, body) => {
  const reply = await refused('api-keys', body)
  expect([reply.status, reply.body.code]).toEqual([400, 'request.malformed'])
})

test('the problem for invalid JSON does not repeat the body', async () => {
  const reply = await refused('api-keys', '{"name": whsec_do_not_repeat_me}')
  expect(reply.status).toBe(400)
  expect(reply.text).not.toContain('whsec')
})

const mediaTypes: [type: string, status: number][] = [
  ['application/json', 201],
  ['application/json; charset=utf-8', 201],
  ['application/json;charset=UTF-8', 201],
  ['APPLICATION/JSON', 201],
  ['Application/Json; Charset="utf-8"', 201],
  ['text/plain', 415],
  ['application/x-www-form-urlencoded', 415],
  ['multipart/form-data; boundary=x', 415],
  ['application/jsonp', 415],
  ['application/json5', 415],
  ['application/problem+json', 415],
  ['text/json', 415],
  ['json', 415],
  ['*/*', 415],
]
test.each(mediaTypes)('a body sent as %s is answered %i', async (type, status) => {
  const options = { token: api.owner.token, raw: '{"name":"typed"}', headers: { 'content-type': type } }
  const reply = await call<Problem>(`${api.url}/api/v1/organizations/${api.orgId}/api-keys`, options)
  api.documented.check('POST', '/api/v1/organizations/{org_id}/api-keys', reply)
  expect(reply.status).toBe(status)
  if (status === 415) {
    expect(reply.body.code).toBe('request.unsupported_media_type')
    expect(await countRows(api.db)).toEqual(before)
  }
})

test('a body of exactly the maximum size is accepted, one byte more is answered 413', async () => {
  const sized = (size: number) => '{"name":"big"}'.padEnd(size, ' ')
  const url = `${api.url}/api/v1/organizations/${api.orgId}/api-keys`
  expect((await call(url, { token: api.owner.token, raw: sized(65_536) })).status).toBe(201)
  before = await countRows(api.db)
  const reply = await refused('api-keys', sized(65_537))
  expect([reply.status, reply.body.code]).toEqual([413, 'request.too_large'])
})

test('255 characters are counted as characters, not as UTF-16 units', async () => {
  const name = '😀'.repeat(255)
  const url = `${api.url}/api/v1/organizations/${api.orgId}/api-keys`
  const reply = await call<{ name: string }>(url, { token: api.owner.token, body: { name } })
  expect([reply.status, reply.body.name]).toEqual([201, name])
})

test.each(['👩‍💻', 'می‌خواهم', 'ש\u200f (ב)', 'e\u0301'])('the name %s is kept as it is', async (name) => {
  const url = `${api.url}/api/v1/organizations/${api.orgId}/api-keys`
  const reply = await call<{ name: string }>(url, { token: api.owner.token, body: { name } })
  expect([reply.status, reply.body.name]).toEqual([201, name])
})

test('of a repeated field the last one counts, in the answer and in the database', async () => {
  const url = `${api.url}/api/v1/organizations/${api.orgId}/api-keys`
  const reply = await call<{ id: string; name: string }>(url, {
    token: api.owner.token,
    raw: '{"name":"a","name":"b"}',
  })
  const [row] = await api.db`select name from keyhook.api_keys where id = ${reply.body.id}`
  expect([reply.status, reply.body.name, row?.name]).toEqual([201, 'b', 'b'])
})

describe('a body that is expensive to validate', () => {
  const many = (item: string) =>
    `{"url":"https://example.com/","event_types":[${item}${`,${item}`.repeat(60_000 / (item.length + 1))}]}`
  const numbers = `{"url":"https://example.com/","event_types":[${Array.from({ length: 11_000 }, (_, i) => i)}]}`
  const deep = '['.repeat(12_000) + ']'.repeat(12_000)
  const fields = `{${Array.from({ length: 6_000 }, (_, i) => `"f${i}":0`)}}`

  test.each([
    ['event types that are all {}', many('{}')],
    ['event types that are all 0', many('0')],
    ['event types that are all the same', many('"invoice.paid"')],
    ['thousands of different numbers', numbers],
    ['two equal deeply nested arrays', `{"url":"https://example.com/","event_types":[${deep},${deep}]}`],
    ['thousands of unknown fields', fields],
  ])('%s is refused within seconds, with a short answer', async (_, body) => {
    const started = performance.now()
    const reply = await refused('webhooks', body)
    expect(reply.status).toBe(422)
    expect(reply.text.length).toBeLessThan(20_000)
    expect(performance.now() - started).toBeLessThan(20_000)
  })
})
