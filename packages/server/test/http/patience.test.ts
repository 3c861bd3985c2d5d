import { setTimeout } from 'node:timers/promises'
import { pino } from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import type { Problem } from '../../src/http/problems.ts'
import { createHttpServer } from '../../src/http/server.ts'
import { captureLog } from '../support/captured-log.ts'
import { call } from '../support/client.ts'
import { startApiForTest } from '../support/installation.ts'
import { openRaw } from '../support/raw-http.ts'

/*
 * Slow clients, clients that leave, and a server that stops.
 */

async function startImpatient(): Promise<string> {
  const app = createHttpServer({
    routes: [],
    authenticate: { member: () => Promise.reject(new Error()), operator: () => Promise.reject(new Error()) },
    keyUses: { note() {}, async close() {} },
    limits: { requestBytesMax: 1_024, requestMsMax: 200 },
    trustedProxies: null,
    log: pino({ level: 'silent' }),
  })
  onTestFinished(() => app.close())
  return app.listen({ host: '127.0.0.1', port: 0 })
}

test('a client that dribbles its headers is answered 408 and hung up on', async () => {
  const { socket, received, ended } = openRaw(await startImpatient())
  socket.write('GET / HTTP/1.1\r\nHost: x\r\n')
  const dribble = setInterval(() => socket.writable && socket.write('X-A: b\r\n'), 30)
  await ended
  clearInterval(dribble)
  expect(received()).toMatch(/^HTTP\/1\.1 408 /)
  const problem = JSON.parse(received().split('\r\n\r\n')[1]!) as Problem
  expect(problem.code).toBe('request.timeout')
})

test('a client that leaves in the middle of its body is no error of ours in the log', async () => {
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

test('every log line of a request carries its id under one name', async () => {
  const { log, lines } = captureLog()
  const api = await startApiForTest({}, log)
  await call(`${api.url}/api/v1/organizations`, { token: 'kh_nonsense' })
  const ofRequest = lines().filter((line) => String(line.msg).startsWith('request.'))
  expect(ofRequest.map((line) => line.msg)).toEqual(['request.refused', 'request.answered'])
  expect(new Set(ofRequest.map((line) => line.requestId)).size).toBe(1)
  expect(ofRequest[0]!.requestId).toMatch(/^req_/)
})

test('a request leaves exactly one line that says how it was answered, whatever became of it', async () => {
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
