import { expect, onTestFinished, test } from 'vitest'
import { composeProbes } from '../../src/compose/api.ts'
import type { StorageReport } from '../../src/databases/storage-rules.ts'
import { createMetrics } from '../../src/telemetry/metrics.ts'
import { captureLog } from '../kit/captured-log.ts'
import { ownedApi } from '../kit/owned-api.ts'
import { problemOf } from '../kit/problem-of.ts'
import { sendRaw } from '../kit/raw-http.ts'

/*
 * A process without the API serves health and metrics, and answers everything else as the API does.
 */

const api = ownedApi()
const expectProblem = problemOf(api)

async function startProbes(parts: { storage?: () => StorageReport } = {}) {
  const { log, lines } = captureLog()
  const app = composeProbes(api, { log, metrics: createMetrics(), pools: [], ...parts })
  onTestFinished(() => app.close())
  return { url: await app.listen({ host: '127.0.0.1', port: 0 }), lines }
}

test.each([
  ['an invalid path', 'GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n', 400, 'request.malformed'],
  ['an unknown path', 'GET /nope HTTP/1.1\r\nHost: x\r\n\r\n', 404, 'not_found'],
  ['an unknown method', 'FOO / HTTP/1.1\r\nHost: x\r\n\r\n', 400, 'request.malformed'],
  [
    'a body that is not read',
    'POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 3\r\n\r\nabc',
    405,
    'request.method_not_allowed',
  ],
  [
    'a huge header',
    `GET /healthz HTTP/1.1\r\nHost: x\r\nX-A: ${'a'.repeat(20_000)}\r\n\r\n`,
    431,
    'request.header_too_large',
  ],
  ['no Host', 'GET /healthz HTTP/1.1\r\n\r\n', 400, 'request.malformed'],
  ['an expectation', 'GET /healthz HTTP/1.1\r\nHost: x\r\nExpect: x\r\n\r\n', 417, 'request.expectation_failed'],
  ['CONNECT', 'CONNECT example.com:443 HTTP/1.1\r\nHost: x\r\n\r\n', 405, 'request.method_not_allowed'],
  [
    'two lengths',
    'POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc',
    400,
    'request.malformed',
  ],
])('%s is refused with a problem and logged', async (_what, request, status, code) => {
  const probes = await startProbes()
  const reply = await sendRaw(probes.url, request)
  expectProblem(reply, status, code)
  expect(reply.headers['cache-control']).toBe('no-store')
  const refused = () => probes.lines().filter((line) => line.status === status)
  await expect.poll(refused).toHaveLength(1)
  expect(refused()[0]).toMatchObject({ address: '127.0.0.1' })
})

test('liveness, readiness and metrics are served', async () => {
  const { url } = await startProbes()
  for (const path of ['/healthz', '/readyz', '/metrics']) {
    expect((await sendRaw(url, `GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`)).status, path).toBe(200)
  }
})

test('readiness answers as documented, with and without databases on this machine', async () => {
  const disk = {
    freeBytes: 3e9,
    sizeBytes: 1e10,
    freeFiles: 1e6,
    level: 'ok',
    floorBytes: 2e9,
    reserveBytes: 1e9,
  } as const
  const states = { normal: 0, read_only: 0, stopped: 0 }
  for (const storage of [undefined, () => ({ disk, usedBytes: 0, states })]) {
    const { url } = await startProbes(storage && { storage })
    const { body } = await api.documented.call('GET', '/readyz', `${url}/readyz`)
    expect(body).toMatchObject({ status: 'ok', ...(storage && { disk: { state: 'ok', free_bytes: 3e9 } }) })
  }
})
