import { beforeAll, describe, expect, test } from 'vitest'
import { ownedApi } from '../kit/owned-api.ts'
import { problemOf } from '../kit/problem-of.ts'
import { openRaw, sendRaw } from '../kit/raw-http.ts'

/*
 * Requests that are answered without reading their body: a caller without access makes us read nothing, and no caller makes us
 * read without limit.
 */

const api = ownedApi()
const expectProblem = problemOf(api)
let keys: string

beforeAll(() => {
  keys = `/api/v1/organizations/${api.orgId}/api-keys`
})

const json = 'Content-Type: application/json\r\n'
const name = '{"name":"wire"}'

test('a request without a token is refused before its body is read', async () => {
  const request = `POST ${keys} HTTP/1.1\r\nHost: x\r\n${json}Content-Length: 60000\r\n\r\n`
  expectProblem(await sendRaw(api.url, request), 401, 'auth.required')
})

const bodies: [what: string, headers: string, body: string][] = [
  ['invalid JSON', `${json}Content-Length: 3\r\n`, '{{{'],
  ['an invalid content type', 'Content-Type: ///\r\nContent-Length: 2\r\n', '{}'],
  ['a length beyond the limit', `${json}Content-Length: 9999999\r\n`, '{'],
  ['a body that does not arrive', `${json}Content-Length: 20\r\n`, '{'],
]
describe.each(bodies)('%s without a token is not read', (_, headers, body) => {
  test.each([
    ['PUT', 'a path that takes other methods', 405, 'request.method_not_allowed'],
    ['QUERY', 'a path that takes other methods', 405, 'request.method_not_allowed'],
    ['POST', 'no path', 404, 'not_found'],
    ['POST', 'a path', 401, 'auth.required'],
  ])('by %s to %s', async (method, place, status, code) => {
    const path = place === 'no path' ? '/nope' : keys
    const reply = await sendRaw(api.url, `${method} ${path} HTTP/1.1\r\nHost: x\r\n${headers}\r\n${body}`)
    expectProblem(reply, status, code)
    if (status === 405) expect(reply.headers.allow).toBe('POST, GET, HEAD')
  })
})

test('a QUERY without a content type is answered 405 like any method that a path does not have', async () => {
  const reply = await sendRaw(api.url, `QUERY ${keys} HTTP/1.1\r\nHost: x\r\n\r\n`)
  expectProblem(reply, 405, 'request.method_not_allowed')
  expect(reply.headers.allow).toBe('POST, GET, HEAD')
})

test.each([
  ['POST', () => keys, 401],
  ['POST', () => '/nope', 404],
  ['PUT', () => keys, 405],
  ['GET', () => '/healthz', 200],
])('an endless body of %s is read up to the limit, then the connection is closed: %#', async (method, path, status) => {
  const { socket, received, ended } = openRaw(api.url)
  socket.write(`${method} ${path()} HTTP/1.1\r\nHost: x\r\n${json}Transfer-Encoding: chunked\r\n\r\n`)
  const chunk = `4000\r\n${' '.repeat(0x4000)}\r\n`
  const talk = () => {
    for (let n = 0; n < 64; n++) if (socket.writable) socket.write(chunk)
  }
  socket.on('drain', talk)
  talk()
  await ended
  expect(received()).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `))
  expect(socket.bytesWritten).toBeLessThan(50_000_000)
})

test.each([200_000, 5_000_000])('a GET with an unread body of %i bytes is answered', async (bytes) => {
  const { socket, received, ended } = openRaw(api.url)
  socket.write(`GET ${keys} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${api.owner.token}\r\n`)
  socket.write(`${json}Content-Length: ${bytes}\r\n\r\n${' '.repeat(bytes)}`)
  await ended
  expect(received()).toMatch(/^HTTP\/1\.1 200 [\s\S]*\[/)
})

test('after an error answer the rest of the body is skipped, and the connection stays open', async () => {
  const { socket, received } = openRaw(api.url)
  socket.write(`POST ${keys} HTTP/1.1\r\nHost: x\r\n${json}Content-Length: 15\r\n\r\n`)
  await expect.poll(received).toMatch(/^HTTP\/1\.1 401 /)
  socket.write(`${name}GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n`)
  await expect.poll(() => received().match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 401', 'HTTP/1.1 200'])
  socket.destroy()
})

test('a request with an error answer is not answered again when the rest of it is malformed', async () => {
  const { socket, received, ended } = openRaw(api.url)
  socket.write(`POST ${keys} HTTP/1.1\r\nHost: x\r\n${json}Transfer-Encoding: chunked\r\n\r\n`)
  await expect.poll(received).toMatch(/^HTTP\/1\.1 401 /)
  socket.write('this is no chunk\r\n')
  await ended
  expect(received().match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 401'])
})
