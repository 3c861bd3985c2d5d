import { once } from 'node:events'
import { connect } from 'node:net'
import { beforeAll, describe, expect, test } from 'vitest'
import type { Problem } from '../../src/http/problems.ts'
import { call } from '../kit/client.ts'
import { ownedApi } from '../kit/owned-api.ts'
import { problemOf } from '../kit/problem-of.ts'
import { openRaw, sendRaw } from '../kit/raw-http.ts'
import { countRows } from '../kit/rows.ts'

/*
 * Requests that no HTTP client library sends: each is answered with a problem, and the connection never hangs.
 */

const api = ownedApi()
let authorized: string
let keys: string

beforeAll(() => {
  authorized = `Host: x\r\nAuthorization: Bearer ${api.owner.token}\r\n`
  keys = `/api/v1/organizations/${api.orgId}/api-keys`
})

const expectProblem = problemOf(api)

const json = 'Content-Type: application/json\r\n'
const name = '{"name":"wire"}'

const post = (headers: string, body: string, query = '') =>
  `POST ${keys}${query} HTTP/1.1\r\n${authorized}${headers}Content-Length: ${body.length}\r\n\r\n${body}`

type Broken = [what: string, request: () => string | Uint8Array, status: number, code: string]
const broken: Broken[] = [
  ['not HTTP', () => 'hello there\r\n\r\n', 400, 'request.malformed'],
  ['a TLS handshake', () => new Uint8Array([0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00]), 400, 'request.malformed'],
  ['an unknown method', () => `FOO ${keys} HTTP/1.1\r\n${authorized}\r\n`, 400, 'request.malformed'],
  ['HTTP/9.9', () => `GET ${keys} HTTP/9.9\r\n${authorized}\r\n`, 400, 'request.malformed'],
  ['no Host header', () => `GET ${keys} HTTP/1.1\r\n\r\n`, 400, 'request.malformed'],
  ['HTTP/0.9', () => `GET ${keys}\r\n\r\n`, 400, 'request.malformed'],
  ['two Host headers', () => `GET ${keys} HTTP/1.1\r\nHost: a\r\n${authorized}\r\n`, 400, 'request.malformed'],
  ['an invalid Host', () => `GET /healthz HTTP/1.1\r\nHost: a b/<>\r\n\r\n`, 400, 'request.malformed'],
  ['CONNECT', () => `CONNECT example.com:443 HTTP/1.1\r\n${authorized}\r\n`, 405, 'request.method_not_allowed'],
  [
    'a token that is folded into a second line',
    () => `GET ${keys} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer\r\n ${api.owner.token}\r\n\r\n`,
    400,
    'request.malformed',
  ],
  [
    'two Authorization headers, the first of them good',
    () => `GET ${keys} HTTP/1.1\r\n${authorized}Authorization: Bearer x\r\n\r\n`,
    401,
    'auth.invalid_token',
  ],
  [
    'two Content-Type headers, the first of them good',
    () => post(`${json}Content-Type: text/plain\r\n`, name),
    415,
    'request.unsupported_media_type',
  ],
  ['a compressed body', () => post(`${json}Content-Encoding: gzip\r\n`, name), 415, 'request.unsupported_media_type'],
  [
    'an unknown transfer coding',
    () =>
      `POST ${keys} HTTP/1.1\r\n${authorized}${json}Transfer-Encoding: gzip, chunked\r\n\r\nf\r\n${name}\r\n0\r\n\r\n`,
    400,
    'request.malformed',
  ],
  [
    'a token among the trailers',
    () =>
      `POST ${keys} HTTP/1.1\r\nHost: x\r\n${json}Transfer-Encoding: chunked\r\n\r\nf\r\n${name}\r\n0\r\nAuthorization: Bearer ${api.owner.token}\r\n\r\n`,
    401,
    'auth.required',
  ],
  ['an unknown query parameter', () => post(json, name, '?force=true'), 422, 'request.invalid'],
  [
    'a header line without a colon',
    () => `GET ${keys} HTTP/1.1\r\n${authorized}nonsense\r\n\r\n`,
    400,
    'request.malformed',
  ],
  ['a NUL in a header', () => `GET ${keys} HTTP/1.1\r\n${authorized}X: a\0b\r\n\r\n`, 400, 'request.malformed'],
  ['a NUL in the path', () => `GET ${keys}\0 HTTP/1.1\r\n${authorized}\r\n`, 400, 'request.malformed'],
  [
    'two different lengths',
    () => `POST ${keys} HTTP/1.1\r\n${authorized}${json}Content-Length: 15\r\nContent-Length: 16\r\n\r\n${name}`,
    400,
    'request.malformed',
  ],
  [
    'length and chunks at once',
    () =>
      `POST ${keys} HTTP/1.1\r\n${authorized}${json}Content-Length: 15\r\nTransfer-Encoding: chunked\r\n\r\nf\r\n${name}\r\n0\r\n\r\n`,
    400,
    'request.malformed',
  ],
  [
    'a negative length',
    () => `POST ${keys} HTTP/1.1\r\n${authorized}${json}Content-Length: -1\r\n\r\n`,
    400,
    'request.malformed',
  ],
  [
    'an invalid chunk size',
    () => `POST ${keys} HTTP/1.1\r\n${authorized}${json}Transfer-Encoding: chunked\r\n\r\nzz\r\n${name}\r\n0\r\n\r\n`,
    400,
    'request.malformed',
  ],
  [
    'a header of 20 KB',
    () => `GET ${keys} HTTP/1.1\r\n${authorized}X-Big: ${'x'.repeat(20_000)}\r\n\r\n`,
    431,
    'request.header_too_large',
  ],
  [
    'a token of 20 KB',
    () => `GET ${keys} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${'x'.repeat(20_000)}\r\n\r\n`,
    431,
    'request.header_too_large',
  ],
  [
    'a path of 20 KB',
    () => `GET /api/v1/${'x'.repeat(20_000)} HTTP/1.1\r\n${authorized}\r\n`,
    431,
    'request.header_too_large',
  ],
  [
    'an unknown expectation',
    () => `GET ${keys} HTTP/1.1\r\n${authorized}Expect: miracles\r\n\r\n`,
    417,
    'request.expectation_failed',
  ],
  [
    'an unknown expectation beside 100-continue',
    () => `GET ${keys} HTTP/1.1\r\n${authorized}Expect: 100-continue, miracles\r\n\r\n`,
    417,
    'request.expectation_failed',
  ],
  [
    'an expectation that contains 100-continue',
    () => `GET ${keys} HTTP/1.1\r\n${authorized}Expect: x=100-continue\r\n\r\n`,
    417,
    'request.expectation_failed',
  ],
  [
    'two Expect headers',
    () => `GET ${keys} HTTP/1.1\r\n${authorized}Expect: 100-continue\r\nExpect: 100-continue\r\n\r\n`,
    417,
    'request.expectation_failed',
  ],
  [
    'an invalid percent escape',
    () => `GET /api/v1/organizations/%zz/api-keys HTTP/1.1\r\n${authorized}\r\n`,
    400,
    'request.malformed',
  ],
  [
    'a path that is not UTF-8',
    () => `GET /api/v1/organizations/%ff/api-keys HTTP/1.1\r\n${authorized}\r\n`,
    400,
    'request.malformed',
  ],
  [
    'an incomplete body',
    () => `POST ${keys} HTTP/1.1\r\n${authorized}${json}Content-Length: 15\r\nConnection: close\r\n\r\n{"name"`,
    0,
    '',
  ],
  [
    'chunks beyond the limit',
    () =>
      `POST ${keys} HTTP/1.1\r\n${authorized}${json}Transfer-Encoding: chunked\r\n\r\n${`4000\r\n${' '.repeat(0x4000)}\r\n`.repeat(5)}0\r\n\r\n`,
    413,
    'request.too_large',
  ],
  [
    'a length beyond the limit, and no body yet',
    () => `POST ${keys} HTTP/1.1\r\n${authorized}${json}Content-Length: 9999999999\r\n\r\n`,
    413,
    'request.too_large',
  ],
  [
    'a body without a type',
    () => `POST ${keys} HTTP/1.1\r\n${authorized}Content-Length: 15\r\n\r\n${name}`,
    415,
    'request.unsupported_media_type',
  ],
  [
    'a body with an empty type',
    () => `POST ${keys} HTTP/1.1\r\n${authorized}Content-Type: \r\nContent-Length: 15\r\n\r\n${name}`,
    415,
    'request.unsupported_media_type',
  ],
  ['no body, no type, no length', () => `POST ${keys} HTTP/1.1\r\n${authorized}\r\n`, 422, 'request.invalid'],
  ['a length of zero', () => `POST ${keys} HTTP/1.1\r\n${authorized}Content-Length: 0\r\n\r\n`, 422, 'request.invalid'],
]

describe('a malformed request is answered with a problem, and nothing is stored', () => {
  test.each(broken)('%s', async (what, request, status, code) => {
    const before = await countRows(api.db)
    const reply = await sendRaw(api.url, request(), { halfClose: what === 'an incomplete body' })
    if (status !== 0) expectProblem(reply, status, code)
    else expect(reply.text).not.toContain('201')
    expect(await countRows(api.db)).toEqual(before)
  })
})

test('the answer to a request that cannot be parsed has a status text and a date', async () => {
  const reply = await sendRaw(api.url, 'hello there\r\n\r\n')
  expect(reply.text).toMatch(/^HTTP\/1\.1 400 Bad Request\r\n/)
  expect(Math.abs(Date.parse(reply.headers.date!) - Date.now())).toBeLessThan(60_000)
})

test('requests before a malformed one on the same connection are answered first', async () => {
  const { socket, received, ended } = openRaw(api.url)
  const whole = `GET ${keys} HTTP/1.1\r\n${authorized}\r\n`
  socket.write(`${whole}${post(json, name)}not HTTP\r\n\r\nand more of it\r\n\r\n`)
  await ended
  expect(received().match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 200', 'HTTP/1.1 201', 'HTTP/1.1 400'])
})

test.each([
  ['garbage', 'hello there\r\n\r\n'],
  ['a CONNECT', 'CONNECT example.com:443 HTTP/1.1\r\nHost: x\r\n\r\n'],
])('after %s the connection is closed, also when the client keeps its side open or resets it', async (_, text) => {
  const { hostname, port } = new URL(api.url)
  const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true })
  const closed = new Promise<void>((resolve) => socket.on('error', () => resolve()))
  socket.resume()
  socket.write(text)
  const talking = setInterval(() => socket.write('and on and on'), 50)
  // Writing fails only when the server has closed its side.
  await closed
  clearInterval(talking)
  const another = connect({ host: hostname, port: Number(port), allowHalfOpen: true })
  another.write(text)
  await once(another, 'data')
  another.resetAndDestroy()
  await once(another, 'close')
  expect((await call(`${api.url}/healthz`)).status).toBe(200)
})

test('an unknown expectation behind another request is answered in its turn', async () => {
  const { socket, received, ended } = openRaw(api.url)
  const ask = (more: string) => `GET ${keys} HTTP/1.1\r\n${authorized}${more}\r\n`
  socket.write(ask('') + ask('Expect: miracles\r\n'))
  await ended
  expect(received().match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 200', 'HTTP/1.1 417'])
  expect((await call(`${api.url}/healthz`)).status).toBe(200)
})

test('a DELETE with an unknown query parameter deletes nothing', async () => {
  const made = await call<{ id: string }>(`${api.url}${keys}`, { token: api.owner.token, body: { name: 'kept' } })
  const options = { method: 'DELETE', token: api.owner.token }
  const reply = await call<Problem>(`${api.url}${keys}/${made.body.id}?dry_run=true`, options)
  expect([reply.status, reply.body.detail]).toEqual([422, 'dry_run: is not a known parameter'])
  const [row] = await api.db`select revoked_at from keyhook.api_keys where id = ${made.body.id}`
  expect(row!.revoked_at).toBeNull()
})

test('a body that is shorter than its Content-Length creates no key', async () => {
  const before = await countRows(api.db)
  const { socket, ended } = openRaw(api.url)
  socket.write(`POST ${keys} HTTP/1.1\r\n${authorized}${json}Content-Length: 15\r\n\r\n{"name"`)
  await new Promise((resolve) => setTimeout(resolve, 100))
  socket.destroy()
  await ended
  expect(await countRows(api.db)).toEqual(before)
})

test('bytes after the body are parsed as the next request and answered 400', async () => {
  const { socket, received, ended } = openRaw(api.url)
  socket.write(`POST ${keys} HTTP/1.1\r\n${authorized}${json}Content-Length: 15\r\n\r\n${name}`)
  await expect.poll(received).toMatch(/^HTTP\/1.1 201/)
  socket.write('and more\r\n\r\n')
  await ended
  expect(received().match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 201', 'HTTP/1.1 400'])
})

test.each(['100-continue', '100-Continue \t'])('Expect: %s is answered 100, then the request is', async (expected) => {
  const { socket, received } = openRaw(api.url)
  socket.write(`POST ${keys} HTTP/1.1\r\n${authorized}${json}Expect: ${expected}\r\nContent-Length: 15\r\n\r\n`)
  await expect.poll(received).toMatch(/^HTTP\/1\.1 100 Continue\r\n\r\n/)
  socket.write(name)
  await expect.poll(received).toMatch(/HTTP\/1\.1 201 /)
  socket.destroy()
})

test('a request with an Upgrade header is answered, and its connection closed', async () => {
  const { socket, received, ended } = openRaw(api.url)
  const upgrade = 'Connection: Upgrade\r\nUpgrade: h2c\r\n'
  const ask = (more: string) => `GET ${keys} HTTP/1.1\r\n${authorized}${more}\r\n`
  socket.write(ask(upgrade) + ask(''))
  await ended
  expect(received()).toMatch(/^HTTP\/1\.1 200 /)
  expect(received()).toMatch(/\r\nconnection: close\r\n/i)
})

test('HTTP/1.0 is answered', async () => {
  const reply = await sendRaw(api.url, `GET ${keys} HTTP/1.0\r\nAuthorization: Bearer ${api.owner.token}\r\n\r\n`)
  expect(reply.status).toBe(200)
  expect(Array.isArray(JSON.parse(reply.body))).toBe(true)
})

test('an absolute target is served like its path, and its next link is a path', async () => {
  for (const name of ['one', 'two']) {
    await call(`${api.url}${keys}`, { token: api.owner.token, body: { name } })
  }
  const reply = await sendRaw(api.url, `GET http://elsewhere.example${keys}?limit=1 HTTP/1.1\r\n${authorized}\r\n`)
  expect(reply.status).toBe(200)
  expect(reply.headers.link).toMatch(/^<\/api\/v1\/organizations\//)
  const refusedMethod = await sendRaw(api.url, `PUT http://elsewhere.example${keys} HTTP/1.1\r\n${authorized}\r\n`)
  expectProblem(refusedMethod, 405, 'request.method_not_allowed')
})

test.each([
  ['POST', 'keys', 422],
  ['POST', 'nowhere', 404],
  ['DELETE', 'keys', 405],
  ['GET', 'keys', 200],
])('a %s to %s with a JSON type and no body is answered at once', async (method, place, status) => {
  const path = place === 'keys' ? keys : `/${place}`
  const reply = await sendRaw(api.url, `${method} ${path} HTTP/1.1\r\n${authorized}${json}\r\n`)
  expect(reply.status).toBe(status)
})

test.each([
  json,
  'Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 0\r\n',
  'Content-Type: text/plain\r\n',
])('a DELETE may have a content type without a body: %j', async (type) => {
  const made = await call<{ id: string }>(`${api.url}${keys}`, { token: api.owner.token, body: { name: 'x' } })
  const reply = await sendRaw(api.url, `DELETE ${keys}/${made.body.id} HTTP/1.1\r\n${authorized}${type}\r\n`)
  expect(reply.status).toBe(204)
})

test.each([
  ['text', 'text/plain', 415],
  ['{', 'application/json', 400],
  [' '.repeat(65_537), 'application/json', 413],
])('a DELETE with an invalid body is refused as documented: %#', async (raw, type, status) => {
  const made = await call<{ id: string }>(`${api.url}${keys}`, { token: api.owner.token, body: { name: 'kept' } })
  const options = { method: 'DELETE', token: api.owner.token, raw, headers: { 'content-type': type } }
  const reply = await call(`${api.url}${keys}/${made.body.id}`, options)
  api.documented.check('DELETE', '/api/v1/organizations/{org_id}/api-keys/{api_key_id}', reply)
  expect(reply.status).toBe(status)
  const [row] = await api.db`select revoked_at from keyhook.api_keys where id = ${made.body.id}`
  expect(row!.revoked_at).toBeNull()
})

test('a client that closes its sending side after the request gets its answer', async () => {
  const made = await sendRaw(api.url, post(json, '{"name":"half-closed"}'), { halfClose: true })
  expect([made.status, JSON.parse(made.body).name]).toEqual([201, 'half-closed'])
  const { socket, received, ended } = openRaw(api.url)
  socket.end(`GET ${keys} HTTP/1.1\r\n${authorized}\r\nGET /healthz HTTP/1.1\r\nHost: x\r\n\r\n`)
  await ended
  expect(received().match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 200', 'HTTP/1.1 200'])
})

test('HTTP/1.0 gets no 100 Continue', async () => {
  const body = '{"name":"old"}'
  const head = `POST ${keys} HTTP/1.0\r\n${authorized}${json}Expect: 100-continue\r\nContent-Length: ${body.length}\r\n`
  const reply = await sendRaw(api.url, `${head}\r\n${body}`)
  expect([reply.status, reply.text.match(/HTTP\/1\.\d \d+/g)]).toEqual([201, ['HTTP/1.1 201']])
})

test('requests that arrive in one packet are answered in order', async () => {
  const { socket, received } = openRaw(api.url)
  const ask = (path: string) => `GET ${path} HTTP/1.1\r\n${authorized}\r\n`
  socket.write(ask(keys) + ask('/nothing') + ask('/healthz'))
  await expect.poll(() => received().match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 200', 'HTTP/1.1 404', 'HTTP/1.1 200'])
  socket.destroy()
})

test('a client that sends requests and a CONNECT and disconnects ends only its own connection', async () => {
  const { hostname, port } = new URL(api.url)
  for (let n = 0; n < 40; n++) {
    const socket = connect(Number(port), hostname)
    await once(socket, 'connect')
    const asked = `GET ${keys} HTTP/1.1\r\n${authorized}\r\n`
    socket.write(`${asked}${asked}CONNECT example.com:443 HTTP/1.1\r\nHost: x\r\n\r\n`)
    if (n % 2 === 0) await new Promise((done) => setTimeout(done, n / 8))
    socket.resetAndDestroy()
  }
  expect((await call(`${api.url}${keys}`, { token: api.owner.token })).status).toBe(200)
})
