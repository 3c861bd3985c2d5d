import { beforeAll, describe, expect, test } from 'vitest'
import { call } from '../kit/client.ts'
import { ownedApi } from '../kit/owned-api.ts'
import { problemOf } from '../kit/problem-of.ts'
import { sendRaw } from '../kit/raw-http.ts'

/*
 * Paths, methods and queries that are not served: each is answered with a problem.
 */

const api = ownedApi()
const expectProblem = problemOf(api)
let authorized: string
let keys: string

beforeAll(() => {
  authorized = `Host: x\r\nAuthorization: Bearer ${api.owner.token}\r\n`
  keys = `/api/v1/organizations/${api.orgId}/api-keys`
})

const paths: [what: string, path: (id: string) => string][] = [
  ['a trailing slash', (id) => `/api/v1/organizations/${id}/api-keys/`],
  ['a double slash', (id) => `/api/v1/organizations//${id}/api-keys`],
  ['a leading double slash', (id) => `//api/v1/organizations/${id}/api-keys`],
  ['dots', (id) => `/api/v1/organizations/${id}/x/../api-keys`],
  ['another case', (id) => `/API/v1/organizations/${id}/api-keys`],
  ['a semicolon', (id) => `/api/v1/organizations/${id}/api-keys;limit=1`],
  ['an encoded slash', (id) => `/api/v1/organizations/${id}%2Fapi-keys`],
  ['%00 in the id', (id) => `/api/v1/organizations/${id}%00/api-keys`],
  ['a quote in the id', (id) => `/api/v1/organizations/${id}%27--/api-keys`],
  ['an id in capitals', (id) => `/api/v1/organizations/${id.toUpperCase()}/api-keys`],
  ['a line break after the id', (id) => `/api/v1/organizations/${id}%0A/api-keys`],
  ['an id of 300 characters', () => `/api/v1/organizations/${'x'.repeat(300)}/api-keys`],
  ['an id of 3,000 characters', () => `/api/v1/organizations/${'x'.repeat(3_000)}/api-keys`],
  ['__proto__ as the id', () => '/api/v1/organizations/__proto__/api-keys'],
  ['no such path', () => '/api/v2/organizations'],
]
test.each(paths)('a path with %s is answered 404', async (_, path) => {
  const reply = await sendRaw(api.url, `GET ${path(api.orgId)} HTTP/1.1\r\n${authorized}\r\n`)
  expectProblem(reply, 404, 'not_found')
})

// The router alone would drop the fragment and serve the rest.
test.each([
  ['GET', '/healthz#x'],
  ['GET', '/healthz?#'],
  ['GET', 'http://x/healthz#x'],
  ['PUT', '/healthz#x'],
  ['GET', '*'],
  ['DELETE', '*'],
])('%s %s is answered 400: not a valid request target', async (method, target) => {
  const reply = await sendRaw(api.url, `${method} ${target} HTTP/1.1\r\n${authorized}\r\n`)
  expectProblem(reply, 400, 'request.malformed')
})

test('OPTIONS * is a valid request target and is answered 404', async () => {
  expectProblem(await sendRaw(api.url, `OPTIONS * HTTP/1.1\r\n${authorized}\r\n`), 404, 'not_found')
})

const allow: [path: string, allowed: string][] = [
  ['/api/v1/organizations', 'GET, HEAD'],
  ['/api/v1/organizations/x/api-keys', 'POST, GET, HEAD'],
  ['/api/v1/organizations/x/api-keys/y', 'DELETE'],
  ['/api/v1/organizations/x/webhooks', 'POST, GET, HEAD'],
  ['/api/v1/organizations/x/webhooks/y', 'DELETE'],
  ['/platform/v1/organizations/x/audit-log', 'GET, HEAD'],
  ['/openapi.json', 'GET, HEAD'],
  ['/docs', 'GET, HEAD'],
  ['/', 'GET, HEAD'],
  ['/healthz', 'GET, HEAD'],
  ['/readyz', 'GET, HEAD'],
  ['/api/v1/organizations/x/api%2Dkeys', 'POST, GET, HEAD'],
]
describe.each(['PUT', 'PATCH', 'OPTIONS', 'TRACE', 'PROPFIND'])('%s', (method) => {
  test.each(allow)('on %s is answered 405 with Allow', async (path, allowed) => {
    const reply = await sendRaw(api.url, `${method} ${path}?a=b HTTP/1.1\r\n${authorized}\r\n`)
    expectProblem(reply, 405, 'request.method_not_allowed')
    expect(reply.headers.allow?.split(', ').sort()).toEqual(allowed.split(', ').sort())
  })
})

test('HEAD answers the headers of GET and no body', async () => {
  for (const path of [keys, '/api/v1/organizations', '/healthz', '/openapi.json']) {
    const get = await call(`${api.url}${path}`, { token: api.owner.token })
    const head = await call(`${api.url}${path}`, { token: api.owner.token, method: 'HEAD' })
    const shown = (headers: Headers) =>
      [...headers].filter(([header]) => !['date', 'connection', 'keep-alive'].includes(header))
    expect([head.status, head.text, shown(head.headers)]).toEqual([get.status, '', shown(get.headers)])
  }
})

const queries: [query: string, parameters: string[]][] = [
  ['limit=0', ['limit']],
  ['limit=-1', ['limit']],
  ['limit=1001', ['limit']],
  ['limit=1.5', ['limit']],
  ['limit=', ['limit']],
  ['limit=ten', ['limit']],
  ['limit=1e2', ['limit']],
  ['limit=0x10', ['limit']],
  ['limit=+5', ['limit']],
  ['limit=%205', ['limit']],
  ['limit=99999999999999999999', ['limit']],
  ['limit=1&limit=2', ['limit']],
  ['cursor=', ['cursor']],
  ['cursor=nonsense', ['cursor']],
  ['cursor=%00', ['cursor']],
  [`cursor=${Buffer.from('wh_01h455vb4pex5vsknk084sn02q').toString('base64url')}`, ['cursor']],
  [`cursor=${Buffer.from('key_01h455vb4pex5vsknk084sn02q').toString('base64')}=`, ['cursor']],
  ['cursor=a&cursor=b', ['cursor']],
  [`cursor=${'a'.repeat(300)}`, ['cursor']],
  ['status=', ['status']],
  ['status=deleted', ['status']],
  ['status=active&status=revoked', ['status']],
  ['page=2', ['page']],
  ['__proto__=1', ['__proto__']],
  ['limit=x&status=y&z=1', ['z', 'limit', 'status']],
]
test.each(queries)('?%s is answered 422 and names the parameter', async (query, parameters) => {
  const reply = await sendRaw(api.url, `GET ${keys}?${query} HTTP/1.1\r\n${authorized}\r\n`)
  const problem = expectProblem(reply, 422, 'request.invalid')
  expect(problem.errors?.map((error) => 'parameter' in error && error.parameter).sort()).toEqual(parameters.sort())
})
