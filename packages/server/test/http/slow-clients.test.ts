import { setTimeout } from 'node:timers/promises'
import { pino } from 'pino'
import Type from 'typebox'
import { expect, onTestFinished, test } from 'vitest'
import { chosen } from '../../src/http/basis.ts'
import type { Problem } from '../../src/http/problems.ts'
import { operatorRoute, type Route } from '../../src/http/route.ts'
import { createHttpServer } from '../../src/http/server.ts'
import { captureLog } from '../kit/captured-log.ts'
import { call } from '../kit/client.ts'
import { startApiForTest } from '../kit/installation.ts'
import { openRaw } from '../kit/raw-http.ts'

/*
 * Slow clients, clients that disconnect, and a server that stops.
 */

const json = 'HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n'

const operatorOnly = {
  needs: 'operator',
  basis: chosen(79),
  tag: 'Operator',
  summary: '',
  description: '',
  faults: [],
} as const

const takesBody = operatorRoute({
  ...operatorOnly,
  method: 'POST',
  path: '/taken',
  audit: 'organization.created',
  body: Type.Object({}),
  success: { status: 202, description: '', schema: Type.Object({}) },
  handler: async () => ({ status: 202, body: {} }),
})

async function startWithShortTimeout(routes: Route[] = []): Promise<string> {
  return (await listen(routes)).url
}

async function listen(routes: Route[]) {
  const app = createHttpServer({
    routes,
    authenticate: {
      member: () => Promise.reject(new Error()),
      operator: async (_, address) => ({ kind: 'operator', tokenId: 'x', address }),
    },
    keyUses: { note() {}, noteRefusal() {} },
    requestLimits: { count() {} },
    limits: { requestBytesMax: 1_024, requestMsMax: 200 },
    keysRequireLogin: false,
    recheckBody: () => null,
    trustedProxies: null,
    log: pino({ level: 'silent' }),
  })
  onTestFinished(() => app.close())
  return { app, url: await app.listen({ host: '127.0.0.1', port: 0 }) }
}

test('a client that sends its headers too slowly is answered 408 and disconnected', async () => {
  const { socket, received, ended } = openRaw(await startWithShortTimeout())
  socket.write('GET / HTTP/1.1\r\nHost: x\r\n')
  const sending = setInterval(() => socket.writable && socket.write('X-A: b\r\n'), 30)
  await ended
  clearInterval(sending)
  expect(received()).toMatch(/^HTTP\/1\.1 408 /)
  const problem = JSON.parse(received().split('\r\n\r\n')[1]!) as Problem
  expect(problem.code).toBe('request.timeout')
})

test('a client that sends its body too slowly is answered 408 and disconnected', async () => {
  const { socket, received, ended } = openRaw(await startWithShortTimeout([takesBody]))
  socket.write(`POST /taken ${json}Content-Length: 1000\r\n\r\n{`)
  const sending = setInterval(() => socket.writable && socket.write(' '), 30)
  await ended
  clearInterval(sending)
  expect(received()).toMatch(/^HTTP\/1\.1 408 /)
})

test('a request that has an error answer and never ends is disconnected without a second answer', async () => {
  const { socket, received, ended } = openRaw(await startWithShortTimeout())
  socket.write(`POST /nothing ${json}Content-Length: 20\r\n\r\n{`)
  await ended
  expect(received().match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 404'])
})

test('requests in flight while the server stops are all answered, and the last answer closes the connection', async () => {
  const inFlight: PromiseWithResolvers<void>[] = []
  const { app, url } = await listen([
    operatorRoute({
      ...operatorOnly,
      method: 'GET',
      path: '/slow',
      audit: null,
      success: { status: 200, description: '', schema: Type.Object({}) },
      async handler() {
        const held = Promise.withResolvers<void>()
        inFlight.push(held)
        await held.promise
        return { status: 200, body: {} }
      },
    }),
  ])
  const { socket, received, ended } = openRaw(url)
  socket.write('GET /slow HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(2))
  await expect.poll(() => inFlight.length).toBe(1)
  const closed = app.close()
  await expect.poll(() => app.server.listening).toBe(false)
  inFlight[0]!.resolve()
  await expect.poll(() => inFlight.length).toBe(2)
  inFlight[1]!.resolve()
  await ended
  await closed
  expect(received().match(/HTTP\/1\.1 \d+|connection: [a-z-]+/gi)).toEqual([
    'HTTP/1.1 200',
    'Connection: keep-alive',
    'HTTP/1.1 200',
    'Connection: close',
  ])
})

test('HEAD reads the first page of a long list and no more', async () => {
  let pages = 0
  const url = await startWithShortTimeout([
    operatorRoute({
      ...operatorOnly,
      method: 'GET',
      path: '/listed',
      audit: null,
      success: { status: 200, description: '', schema: Type.Array(Type.Object({})) },
      handler: async () => ({
        status: 200,
        list: {
          // Three pages, the last of them short.
          page: async ({ limit }) => Array.from({ length: ++pages < 3 ? limit : 1 }, () => ({})),
          keyOf: () => 'x',
          record: () => ({}),
          isKey: () => true,
        },
      }),
    }),
  ])
  expect((await call<object[]>(`${url}/listed`)).body.length).toBeGreaterThan(2)
  expect(pages).toBe(3)
  pages = 0
  const head = await call(`${url}/listed`, { method: 'HEAD' })
  expect([head.status, head.headers.get('content-type')]).toEqual([200, 'application/json; charset=utf-8'])
  // A further page would have been read before the next request is answered.
  await call(`${url}/nothing`)
  expect(pages).toBe(1)
})

test('a client that disconnects in the middle of its body is not logged as an error', async () => {
  const { log, lines } = captureLog()
  const api = await startApiForTest({}, log)
  const orgId = await api.organization()
  const owner = await api.person([{ orgId, role: 'owner' }])
  const { socket } = openRaw(api.url)
  socket.write(
    `POST /api/v1/organizations/${orgId}/api-keys HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${owner.token}\r\n` +
      'Content-Type: application/json\r\nContent-Length: 15\r\n\r\n{"na',
  )
  await setTimeout(150)
  socket.destroy()
  await setTimeout(150)
  expect(lines().filter((line) => Number(line.level) >= 40)).toEqual([])
})

test('every log line of a request has its id under the same name', async () => {
  const { log, lines } = captureLog()
  const api = await startApiForTest({}, log)
  await call(`${api.url}/api/v1/organizations`, { token: 'kh_nonsense' })
  const ofRequest = lines().filter((line) => String(line.msg).startsWith('request.'))
  expect(ofRequest.map((line) => line.msg)).toEqual(['request.refused', 'request.answered'])
  expect(new Set(ofRequest.map((line) => line.requestId)).size).toBe(1)
  expect(ofRequest[0]!.requestId).toMatch(/^req_/)
})

test('every request has exactly one log line with its answer', async () => {
  const { log, lines } = captureLog()
  const api = await startApiForTest({}, log)
  const orgId = await api.organization()
  const { token } = await api.person([{ orgId, role: 'owner' }])
  const keys = `/api/v1/organizations/${orgId}/api-keys`
  const asked: [status: number, path: string, options?: Parameters<typeof call>[1]][] = [
    [200, keys],
    [200, '/api/v1/organizations?limit=1'],
    [201, keys, { body: { name: 'x' } }],
    [400, keys, { raw: '{' }],
    [400, '/%zz'],
    [401, keys, { token: null }],
    [404, `${keys}/key_nothing`, { method: 'DELETE' }],
    [404, '/nothing'],
    [405, keys, { method: 'PUT' }],
    [415, keys, { raw: 'x', headers: { 'content-type': 'text/plain' } }],
    [422, `${keys}?cursor=nonsense`],
    [422, keys, { body: {} }],
  ]
  for (const [status, path, options] of asked) {
    const before = lines().length
    expect((await call(api.url + path, { token, ...options })).status).toBe(status)
    await setTimeout(5)
    const left = lines()
      .slice(before)
      .filter((line) => line.msg === 'request.answered')
    expect(
      left.map((line) => line.status),
      path,
    ).toEqual([status])
  }
})
