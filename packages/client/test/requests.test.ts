import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createClient, KeyhookError } from '@keyhook/client'
import { createOperatorClient } from '@keyhook/client/operator'
import { expect, test, vi } from 'vitest'
import { broken, json, problem, type Scripted, scriptedServer, silent } from './support/scripted-server.ts'

const clientOf = ({ url }: Scripted, options: object = {}) =>
  createClient({ url, token: 'kh_test', organization: 'org_1', ...options })

const failure = async (promise: Promise<unknown>): Promise<KeyhookError> => {
  const error = await promise.then(
    () => expect.fail('it succeeded'),
    (error) => error,
  )
  expect(error).toBeInstanceOf(KeyhookError)
  return error
}

test('reads and deletions are repeated after transient errors', async () => {
  const server = await scriptedServer(broken, problem(503, 'service.unavailable'), json({ id: 'db_1' }))
  expect(await clientOf(server).databases.get('db_1')).toEqual({ id: 'db_1' })
  expect(server.requests).toHaveLength(3)

  const other = await scriptedServer(problem(502, 'bad'), (_, response) => response.writeHead(204).end())
  await clientOf(other).keys.revoke('key_1')
  expect(other.requests.map(({ method }) => method)).toEqual(['DELETE', 'DELETE'])
})

test('the number of attempts is limited, and the last error is thrown', async () => {
  const server = await scriptedServer(problem(503, 'service.unavailable'))
  expect(await failure(clientOf(server, { retries: 1 }).databases.get('db_1'))).toMatchObject({ status: 503 })
  expect(server.requests).toHaveLength(2)
  await failure(clientOf(server).databases.get('db_1', { retries: 0 }))
  expect(server.requests).toHaveLength(3)
})

test('an error that stays is not repeated', async () => {
  const server = await scriptedServer(problem(409, 'database.not_available'))
  await failure(clientOf(server).databases.delete('db_1'))
  expect(server.requests).toHaveLength(1)
})

test('Retry-After is waited for; a long one is passed on', async () => {
  const server = await scriptedServer(problem(503, 'service.unavailable', { 'retry-after': '1' }), json({ id: 'db_1' }))
  const start = performance.now()
  await clientOf(server).databases.get('db_1')
  expect(performance.now() - start).toBeGreaterThanOrEqual(990)

  const busy = await scriptedServer(problem(503, 'service.unavailable', { 'retry-after': '3600' }))
  expect(await failure(clientOf(busy).databases.get('db_1'))).toMatchObject({ retryAfter: 3600 })
  expect(busy.requests).toHaveLength(1)
})

test('every request that was refused because of too many is sent again, and only that', async () => {
  const refused = problem(429, 'request.rate_limited', { 'retry-after': '1' })
  const server = await scriptedServer(refused, json({ id: 'key_1' }, {}, 201))
  const start = performance.now()
  expect(await clientOf(server).keys.create({ name: 'ci' })).toEqual({ id: 'key_1' })
  expect(performance.now() - start).toBeGreaterThanOrEqual(990)
  expect(server.requests).toHaveLength(2)
  // A proxy, which may have passed the request on.
  const proxy = await scriptedServer(problem(429, 'slow_down', { 'retry-after': '1' }))
  expect(await failure(clientOf(proxy).keys.create({ name: 'ci' }))).toMatchObject({ status: 429, retryAfter: 1 })
  expect(proxy.requests).toHaveLength(1)
  // Nothing was deleted by the attempt that was refused.
  const none = await scriptedServer(refused, problem(404, 'not_found'))
  expect(await failure(clientOf(none).webhooks.delete('wh_1'))).toMatchObject({ code: 'not_found' })
})

test('no creation that shows a secret is ever repeated', async () => {
  const server = await scriptedServer(broken)
  const client = clientOf(server, { retries: 5 })
  await failure(client.keys.create({ name: 'ci' }))
  await failure(client.webhooks.create({ url: 'https://example.com', event_types: ['invoice.paid'] }))
  await failure(client.webhooks.rotateSecret('wh_1', {}, { idempotencyKey: 'k1' }))
  await failure(client.databases.create({ name: 'orders' }, { idempotencyKey: 'k2' }))
  await failure(client.restores.create('bak_1', { name: 'copy' }, { idempotencyKey: 'k3' }))
  expect(server.requests.map(({ headers }) => headers['idempotency-key'])).toEqual([
    undefined,
    undefined,
    'k1',
    'k2',
    'k3',
  ])
})

test('another creation is repeated under one Idempotency-Key', async () => {
  const server = await scriptedServer(broken, json({ event_id: 'evt_1' }, {}, 202))
  await clientOf(server).webhooks.test('wh_1', { event_type: 'invoice.paid' })
  const [first, second] = server.requests.map(({ headers }) => headers['idempotency-key'])
  expect(first).toMatch(/^[0-9a-f]{32}$/)
  expect(second).toBe(first)
})

test('a change without an Idempotency-Key is not repeated', async () => {
  const server = await scriptedServer(broken)
  await failure(clientOf(server).webhooks.resume('wh_1'))
  await failure(clientOf(server).webhooks.update('wh_1', { description: 'x' }))
  expect(server.requests).toHaveLength(2)
})

test('a deletion whose first answer was lost has succeeded when the second finds nothing', async () => {
  const server = await scriptedServer(broken, problem(404, 'not_found'))
  await clientOf(server).webhooks.delete('wh_1')
  expect(server.requests).toHaveLength(2)
  const none = await scriptedServer(problem(404, 'not_found'))
  expect(await failure(clientOf(none).webhooks.delete('wh_1'))).toMatchObject({ code: 'not_found' })
})

test('an attempt ends after timeoutMs, also in the middle of the body', async () => {
  const server = await scriptedServer(silent)
  const options = { timeoutMs: 50, retries: 1 }
  expect(await failure(clientOf(server, options).databases.get('db_1'))).toMatchObject({
    code: 'client.timeout',
    status: null,
  })
  expect(server.requests).toHaveLength(2)
  const slow = await scriptedServer((_, response) => response.writeHead(200).write('{"id":'))
  expect(await failure(clientOf(slow, options).databases.get('db_1'))).toMatchObject({ code: 'client.timeout' })
})

test('an aborted signal ends a request, and the wait before the next attempt', async () => {
  const server = await scriptedServer(silent)
  const controller = new AbortController()
  const call = failure(clientOf(server).databases.get('db_1', { signal: controller.signal }))
  await vi.waitFor(() => expect(server.requests).toHaveLength(1))
  controller.abort(new Error('enough'))
  expect(await call).toMatchObject({ code: 'client.aborted', cause: { message: 'enough' } })

  const busy = await scriptedServer(problem(503, 'service.unavailable', { 'retry-after': '60' }))
  const second = new AbortController()
  const waiting = failure(clientOf(busy).databases.get('db_1', { signal: second.signal }))
  await vi.waitFor(() => expect(busy.requests).toHaveLength(1))
  second.abort()
  expect(await waiting).toMatchObject({ code: 'client.aborted' })
  const late = await failure(clientOf(busy).databases.get('db_1', { signal: AbortSignal.abort() }))
  expect(late).toMatchObject({ code: 'client.aborted' })
  expect(busy.requests).toHaveLength(1)
})

test('a server that is not there is a network error with its reason', async () => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  const client = createClient({ url: `http://127.0.0.1:${port}`, token: 'kh_test', retries: 0 })
  const error = await failure(client.organizations.list().toArray())
  expect(error).toMatchObject({ code: 'client.network', status: null })
  expect(error.message).toContain('ECONNREFUSED')
})

test('a redirect is not followed, so the token stays at the configured address', async () => {
  const target = await scriptedServer(json([]))
  const server = await scriptedServer((_, response) =>
    response.writeHead(307, { location: `${target.url}/elsewhere` }).end(),
  )
  const error = await failure(clientOf(server).keys.list().toArray())
  expect(error).toMatchObject({ code: 'client.unexpected_response', status: 307 })
  expect(error.message).toContain(target.url)
  expect(target.requests).toHaveLength(0)
})

test('a list follows the Link header from page to page, under the configured path', async () => {
  const link = (cursor: string) => ({ link: `</api/v1/organizations?limit=2&cursor=${cursor}>; rel="next"` })
  const server = await scriptedServer(json([{ id: 'a' }, { id: 'b' }], link('b')), json([{ id: 'c' }]))
  const client = createClient({ url: `${server.url}/behind/proxy/`, token: 'kh_test' })
  const ids: string[] = []
  for await (const { id } of client.organizations.list({ limit: 2 })) ids.push(id)
  expect(ids).toEqual(['a', 'b', 'c'])
  expect(server.requests.map(({ url }) => url)).toEqual([
    '/behind/proxy/api/v1/organizations?limit=2',
    '/behind/proxy/api/v1/organizations?limit=2&cursor=b',
  ])
})

test('one page is read at a time, and no more than the caller takes', async () => {
  const server = await scriptedServer(json([{ id: 'a' }], { link: '</x?cursor=a>; rel="next"' }))
  const list = clientOf(server).keys.list()
  expect(await list.page()).toEqual({ items: [{ id: 'a' }], next: 'a' })
  for await (const _ of list) break
  expect(server.requests).toHaveLength(2)
})

test.each([
  ['another server', 'http://attacker.example/x?cursor=b', 'points at another server'],
  ['no cursor', '/x', 'has no cursor'],
])('a link to the next page with %s is refused', async (_, target, message) => {
  const server = await scriptedServer(json([{ id: 'a' }], { link: `<${target}>; rel="next"` }))
  const error = await failure(clientOf(server).keys.list().toArray())
  expect(error.code).toBe('client.unexpected_response')
  expect(error.message).toContain(message)
  expect(server.requests).toHaveLength(1)
})

test('a list whose links go round in a circle ends with an error', async () => {
  const to = (cursor: string) => json([{ id: cursor }], { link: `</x?cursor=${cursor}>; rel="next"` })
  const server = await scriptedServer(to('a'), to('b'), to('a'))
  const error = await failure(clientOf(server).keys.list().toArray())
  expect(error.message).toContain('leads back')
  expect(server.requests).toHaveLength(3)
})

test('a problem keeps its code, status, pointers and request id', async () => {
  const errors = [{ pointer: '/name', detail: 'must not be empty' }]
  const server = await scriptedServer(problem(422, 'request.invalid', {}, { errors, request_id: 'req_1' }))
  expect(await failure(clientOf(server).keys.create({ name: '' }))).toMatchObject({
    name: 'KeyhookError',
    message: 'request.invalid.',
    code: 'request.invalid',
    status: 422,
    errors,
    requestId: 'req_1',
    retryAfter: null,
    problem: { title: 'request.invalid' },
  })
})

test('an answer of another program is called unexpected', async () => {
  const page = await scriptedServer((_, response) =>
    response.writeHead(404, { 'content-type': 'text/html' }).end('<p>'),
  )
  expect(await failure(clientOf(page).keys.list().toArray())).toMatchObject({
    code: 'client.unexpected_response',
    status: 404,
  })
  const text = await scriptedServer((_, response) => response.end('hello'))
  expect(await failure(clientOf(text).keys.list().toArray())).toMatchObject({ code: 'client.unexpected_response' })
})

test('mistakes of the program are found before anything is sent', async () => {
  const server = await scriptedServer(json([]))
  const client = clientOf(server)
  expect(() => createClient({ url: 'ftp://example.com', token: 't' })).toThrow(TypeError)
  expect(() => createClient({ url: 'https://user:pw@example.com', token: 't' })).toThrow(TypeError)
  await expect(client.keys.revoke('..')).rejects.toThrow('not an id')
  await expect(client.keys.revoke('')).rejects.toThrow('not an id')
  await expect(createClient({ url: server.url, token: 'a\nb' }).organizations.list().toArray()).rejects.toThrow('token')
  expect(() => createClient({ url: server.url, token: 't' }).keys.list()).toThrow('Which organization?')
  await expect(client.backups.create('db_1', { idempotencyKey: 'a\nb' })).rejects.toThrow(TypeError)
  expect(server.requests).toHaveLength(0)
})

test('an id cannot leave its place in the path', async () => {
  const server = await scriptedServer(json({}))
  await clientOf(server).databases.get('db_1/../../x?y#z')
  expect(server.requests[0]!.url).toBe('/platform/v1/organizations/org_1/databases/db_1%2F..%2F..%2Fx%3Fy%23z')
})

test('the token can be a function, asked before every request', async () => {
  const server = await scriptedServer(json([]))
  let count = 0
  const client = createClient({ url: server.url, token: async () => `token-${++count}` })
  await client.organizations.list().toArray()
  await client.organizations.list().toArray()
  expect(server.requests.map(({ headers }) => headers.authorization)).toEqual(['Bearer token-1', 'Bearer token-2'])
})

test('what has the same effect however often it is sent is repeated without a key', async () => {
  const server = await scriptedServer(broken, json({ active: false }), broken, json([{ id: 'mine' }], {}, 202))
  const operator = createOperatorClient({ url: server.url, token: 'operator' })
  expect(await operator.introspect({ token: 't' })).toEqual({ active: false })
  await operator.events.publish([{ organization_id: 'org_1', type: 'invoice.paid', data: {}, id: 'mine' }])
  expect(server.requests.map(({ headers }) => headers['idempotency-key'])).toEqual(Array(4).fill(undefined))
})

test('the operator client has an entry point of its own', async () => {
  const server = await scriptedServer(json([{ id: 'evt_1' }], {}, 202))
  const operator = createOperatorClient({ url: server.url, token: 'operator' })
  const event = { organization_id: 'org_1', type: 'invoice.paid', data: {} }
  expect(await operator.events.publish([event])).toEqual([{ id: 'evt_1' }])
  expect(server.requests[0]!.url).toBe('/operator/v1/events')
})
