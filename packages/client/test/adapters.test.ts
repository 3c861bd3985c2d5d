import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { webhookHandler as forExpress, type ReceiverOptions } from '@keyhook/client/express'
import { webhookPlugin } from '@keyhook/client/fastify'
import { webhookHandler as forHono } from '@keyhook/client/hono'
import { webhookHandler as forNext } from '@keyhook/client/next'
import { webhookHandler as forRequest } from '@keyhook/client/request'
import express from 'express'
import fastify from 'fastify'
import { Hono } from 'hono'
import { expect, onTestFinished, test, vi } from 'vitest'
import { createSigner } from '../../server/src/delivery/sender/senders.ts'
import { mintWebhookSecret } from '../../server/src/webhooks/rules.ts'

const secret = mintWebhookSecret()
const body = JSON.stringify({ id: 'evt_1', type: 'invoice.paid', timestamp: '', data: { name: 'Žofie 🗝' } })

function signed(text: string): RequestInit {
  const seconds = Math.floor(Date.now() / 1_000)
  const signature = createSigner(secret).standard('evt_1', seconds, Buffer.from(text))
  const headers = { 'webhook-id': 'evt_1', 'webhook-timestamp': String(seconds), 'webhook-signature': signature }
  return { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body: text }
}

type Send = (init: RequestInit) => Promise<Response>
type Handle = (event: { id: string; type: string }) => unknown
type Start = (options: ReceiverOptions, handle: Handle) => Promise<Send>

const at = (url: string): Send => {
  return (init) => fetch(url, init)
}

const startExpress =
  (prepare: (app: express.Express) => void): Start =>
  async (options, handle) => {
    const app = express()
    prepare(app)
    app.post('/hooks', forExpress(options, handle))
    app.use(((_error, _request, response, _next) => {
      response.status(500).end()
    }) as express.ErrorRequestHandler)
    const server = app.listen(0, '127.0.0.1')
    await once(server, 'listening')
    onTestFinished(() => void server.close())
    return at(`http://127.0.0.1:${(server.address() as AddressInfo).port}/hooks`)
  }

const startFastify: Start = async (options, handle) => {
  const app = fastify()
  app.register(webhookPlugin, { path: '/hooks', handle, ...options })
  app.post('/other', async (request) => request.body)
  onTestFinished(() => app.close())
  return at(`${await app.listen({ port: 0, host: '127.0.0.1' })}/hooks`)
}

const startHono =
  (prepare: (app: Hono) => void): Start =>
  async (options, handle) => {
    const app = new Hono()
    prepare(app)
    app.post('/hooks', forHono(options, handle))
    return async (init) => app.request('/hooks', init)
  }

const readsBody = (app: Hono) =>
  app.use(async (context, next) => {
    await context.req.text()
    await next()
  })

const startRequest =
  (handler: typeof forRequest): Start =>
  async (options, handle) => {
    const receive = handler(options, handle)
    return (init) => receive(new Request('https://example.com/hooks', init))
  }

const adapters: [string, Start][] = [
  ['Express', startExpress(() => {})],
  ['Express after express.raw()', startExpress((app) => app.use(express.raw({ type: '*/*' })))],
  ['Fastify', startFastify],
  ['Hono', startHono(() => {})],
  ['Hono after a middleware that reads the body', startHono(readsBody)],
  ['Next', startRequest(forNext)],
  ['Request', startRequest(forRequest)],
]

test.each(adapters)('%s: a signed delivery is handled once and answered 204', async (_, start) => {
  const handled: string[] = []
  const send = await start({ secret }, ({ type, id }) => handled.push(`${type} ${id}`))
  const response = await send(signed(body))
  expect([response.status, await response.text()]).toEqual([204, ''])
  expect(handled).toEqual(['invoice.paid evt_1'])
})

test.each(adapters)(
  '%s: a delivery that does not verify is answered with the reason, and not handled',
  async (_, start) => {
    const rejected: string[] = []
    const options = { secret, onRejected: ({ reason }: { reason: string }) => rejected.push(reason) }
    const send = await start(options, () => expect.fail('handled'))
    const replies = [
      await send({ ...signed(body), body: `${body} ` }),
      await send({ ...signed(body), headers: { 'content-type': 'application/json' } }),
      await send({ ...signed(body), body: '' }),
    ]
    expect(replies.map(({ status }) => status)).toEqual([401, 401, 401])
    expect(await replies[0]!.json()).toEqual({ reason: 'signature_mismatch' })
    expect(rejected).toEqual(['signature_mismatch', 'header_missing', 'signature_mismatch'])
  },
)

test.each(adapters)('%s: a body that is too large is answered 413', async (_, start) => {
  const send = await start({ secret, bodyBytesMax: body.length + 10 }, () => {})
  expect((await send(signed(body))).status).toBe(204)
  expect((await send(signed(`${body}${' '.repeat(100)}`))).status).toBe(413)
})

test.each(adapters.slice(0, 5))(
  '%s: an error of the program is a 500, so that the event is sent again',
  async (_, start) => {
    // Hono prints it.
    const print = vi.spyOn(console, 'error').mockImplementation(() => {})
    onTestFinished(() => print.mockRestore())
    const send = await start({ secret }, async () => {
      throw new Error('the database is down')
    })
    expect((await send(signed(body))).status).toBe(500)
  },
)

test('Request: an error of the program is passed on to the runtime', async () => {
  const send = await startRequest(forRequest)({ secret }, () => Promise.reject(new Error('the database is down')))
  await expect(send(signed(body))).rejects.toThrow('the database is down')
})

test('Express: a body that was parsed before is explained', async () => {
  const messages: string[] = []
  const start = startExpress((app) => app.use(express.json()))
  const send = await start({ secret, onRejected: ({ message }) => messages.push(message) }, () => {})
  expect((await send(signed(body))).status).toBe(500)
  expect(messages[0]).toContain('JSON parser')
})

test('Fastify: other routes keep their JSON parser', async () => {
  const app = fastify()
  app.register(webhookPlugin, { path: '/hooks', secret, handle: () => {} })
  app.post('/other', async (request) => request.body)
  onTestFinished(() => app.close())
  const response = await app.inject({ method: 'POST', url: '/other', payload: { a: 1 } })
  expect(response.json()).toEqual({ a: 1 })
})

test('a secret that is not set is an error of the receiver', async () => {
  const send = await startRequest(forRequest)({ secret: undefined as unknown as string }, () => {})
  const response = await send(signed(body))
  expect([response.status, await response.json()]).toEqual([500, { reason: 'secret_missing' }])
})
