import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test, vi } from 'vitest'
import { created, report, settledHistory, webhookTo } from '../../server/test/delivery/support/delivering-api.ts'
import '../../server/test/kit/server-limits.ts'

/*
 * Each example receives a real delivery, through a TLS server that passes it on as a proxy does. Next is not installed: its example
 * is a function that takes a Request, and is called as one.
 */

const examples = fileURLToPath(new URL('../../../examples/', import.meta.url))

type Receive = (headers: Headers, body: Uint8Array<ArrayBuffer>) => Promise<Response>

/** Starts a program and returns what posts to the address that it prints. */
async function startProgram(file: string, secret: string): Promise<Receive> {
  const child = spawn(process.execPath, ['--conditions=@keyhook/source', file], {
    env: { PATH: process.env.PATH, WEBHOOK_SECRET: secret, PORT: '0' },
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  onTestFinished(async () => {
    child.kill()
    await once(child, 'exit')
  })
  const [line] = await once(createInterface(child.stdout), 'line')
  const url = /http:\S+/.exec(line)![0]
  return (headers, body) => fetch(url, { method: 'POST', headers, body })
}

const requestOf: (...delivery: Parameters<Receive>) => Request = (headers, body) =>
  new Request('https://example.com/hooks', { method: 'POST', headers, body })

async function loadRoute(file: string, secret: string): Promise<Receive> {
  vi.stubEnv('WEBHOOK_SECRET', secret)
  const { POST } = await import(file)
  vi.unstubAllEnvs()
  return (headers, body) => POST(requestOf(headers, body))
}

async function loadWorker(file: string, secret: string): Promise<Receive> {
  const { default: worker } = await import(file)
  return (headers, body) => worker.fetch(requestOf(headers, body), { WEBHOOK_SECRET: secret })
}

test.each([
  ['express/server.js', startProgram],
  ['fastify/server.js', startProgram],
  ['hono/server.js', startProgram],
  ['next/app/hooks/route.js', loadRoute],
  ['request/worker.js', loadWorker],
])('examples/%s accepts a real delivery, and refuses a changed one', async (file, start) => {
  vi.spyOn(console, 'log').mockImplementation(() => {})
  vi.spyOn(console, 'warn').mockImplementation(() => {})
  onTestFinished(() => void vi.restoreAllMocks())
  let receive: Receive
  const changed: [number, unknown][] = []
  const { webhook, deliveries } = await webhookTo(async ({ headers, body }) => {
    const { host: _, connection: __, 'content-length': ___, ...rest } = headers
    const sent = new Headers(rest)
    const bytes = new Uint8Array(body)
    const refused = await receive(sent, new TextEncoder().encode(body.toString().replace('db_1', 'db_2')))
    changed.push([refused.status, await refused.json()])
    const { status } = await receive(sent, bytes)
    return { status }
  })
  receive = await start(examples + file, webhook.secret)
  await report(created())
  const [attempt] = await settledHistory(deliveries, 1)
  expect(attempt).toMatchObject({ status: 'succeeded', response: { status: 204 } })
  expect(changed).toEqual([[401, { reason: 'signature_mismatch' }]])
})
