import { constants, randomBytes } from 'node:crypto'
import { EventEmitter } from 'node:events'
import type { Server, ServerOptions } from 'node:https'
import type { TLSSocket } from 'node:tls'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { Resolve } from '../../../../src/delivery/sender/http1/client.ts'
import { createTlsSessions } from '../../../../src/delivery/sender/http1/connect.ts'
import { type CertificateName, receiverFor, startHostile } from '../../support/receiver.ts'
import { sendingTo } from '../../support/sender.ts'

const tenMinutesMs = 600_000

/** One webhook's sender, with a clock that the test sets. */
function senderTo(url: string, options: { resolve?: Resolve } = {}) {
  const clock = { nowMs: 1_000_000 }
  return { clock, send: sendingTo(url, { ...options, now: () => clock.nowMs }) }
}

/** Every request gets a new connection. */
const closing = () => ({ headers: { connection: 'close' } })
const portOf = (url: string) => Number(new URL(url).port)

/** A receiver that stores sessions by id, as servers without tickets do. */
const withSessionIds = {
  tls: { maxVersion: 'TLSv1.2', secureOptions: constants.SSL_OP_NO_TICKET } satisfies ServerOptions,
  prepare(server: Server) {
    const kept = new Map<string, Buffer>()
    server.on('newSession', (id: Buffer, session: Buffer, done: () => void) => {
      kept.set(id.toString('hex'), session)
      done()
    })
    server.on('resumeSession', (id: Buffer, done: (error: null, session: Buffer | null) => void) =>
      done(null, kept.get(id.toString('hex')) ?? null),
    )
  },
}

/** A receiver that sends a new ticket with every resumption, as many do. Node has no public option for it. */
function renewsTickets(server: Server) {
  type Context = { enableTicketKeyCallback(): void; onticketkeycallback: unknown }
  const { context } = (server as unknown as { _sharedCreds: { context: Context } })._sharedCreds
  const [name, hmac, aes] = [randomBytes(16), randomBytes(16), randomBytes(16)]
  context.onticketkeycallback = (_name: Buffer, _iv: Buffer, sealing: boolean) =>
    sealing ? [1, hmac, aes, name, randomBytes(16)] : [2, hmac, aes]
  context.enableTicketKeyCallback()
}

test.each<[string, { tls: ServerOptions; prepare?: (server: Server) => void }]>([
  ['TLS 1.3', { tls: { minVersion: 'TLSv1.3' } }],
  ['TLS 1.2, tickets', { tls: { maxVersion: 'TLSv1.2' } }],
  ['TLS 1.2, session ids', withSessionIds],
])('a new connection resumes the session of an earlier one: %s', async (_what, options) => {
  const receiver = await receiverFor(closing, options)
  const { send } = senderTo(receiver.url)
  for (let i = 0; i < 3; i++) expect(await send()).toMatchObject({ status: 'succeeded', address: '127.0.0.1' })
  expect(receiver.handshakes).toEqual(['full', 'resumed', 'resumed'])
})

test('a resumed connection has its timings recorded', async () => {
  const receiver = await receiverFor(closing)
  const { send } = senderTo(receiver.url)
  await send()
  expect(await send()).toMatchObject({ connectUs: expect.any(Number), tlsUs: expect.any(Number) })
})

// Fails if tickets are tracked before the socket is connected.
test('a session is resumed although the first address of the name is dead', async () => {
  const receiver = await receiverFor(closing)
  const addresses = Promise.resolve([
    { address: '::1', family: 6 as const },
    { address: '127.0.0.1', family: 4 as const },
  ])
  const url = `https://a.receiver.test:${portOf(receiver.url)}/`
  const { send } = senderTo(url, { resolve: () => ({ addresses, cancel() {} }) })
  await send()
  await send()
  expect(receiver.handshakes).toEqual(['full', 'resumed'])
})

test('webhooks do not share sessions, even with the same receiver', async () => {
  const receiver = await receiverFor(closing)
  await senderTo(receiver.url).send()
  await senderTo(receiver.url).send()
  expect(receiver.handshakes).toEqual(['full', 'full'])
})

// Fails if the time counts from the last ticket.
test('a certificate is verified again after ten minutes, however often tickets were renewed', async () => {
  const receiver = await receiverFor(closing, { prepare: renewsTickets })
  const { clock, send } = senderTo(receiver.url)
  await send()
  clock.nowMs += tenMinutesMs - 1
  await send()
  clock.nowMs += 1
  await send()
  clock.nowMs += tenMinutesMs - 1
  await send()
  expect(receiver.handshakes).toEqual(['full', 'resumed', 'full', 'resumed'])
})

test.each(['TLSv1.3', 'TLSv1.2'] as const)(
  'a receiver that restarts with new ticket keys gets deliveries: %s',
  async (version) => {
    const tls: ServerOptions = { minVersion: version, maxVersion: version }
    const before = await receiverFor(closing, { tls })
    const { send } = senderTo(before.url)
    await send()
    await before.close()
    const after = await receiverFor(closing, { tls, port: portOf(before.url) })
    expect((await send()).status).toBe('succeeded')
    expect((await send()).status).toBe('succeeded')
    expect(after.handshakes).toEqual(['full', 'resumed'])
  },
)

describe('a receiver that fails on a resumed session fails one attempt, not the next', () => {
  // Both fail if sessions are not discarded.
  test('in the handshake', async () => {
    const receiver = await receiverFor(closing, {
      ...withSessionIds,
      prepare(server) {
        const known = new Set<string>()
        server.on('newSession', (id: Buffer, _session: Buffer, done: () => void) => {
          known.add(id.toString('hex'))
          done()
        })
        server.on('resumeSession', (id: Buffer, done: (error: Error | null, session: null) => void) =>
          done(known.has(id.toString('hex')) ? new Error('rejected') : null, null),
        )
      },
    })
    const { send } = senderTo(receiver.url)
    expect((await send()).status).toBe('succeeded')
    expect((await send()).error?.code).toBe('tls_failed')
    expect((await send()).status).toBe('succeeded')
  })

  test('right after it', async () => {
    const receiver = await startHostile((socket) => {
      if (socket.isSessionReused()) socket.destroy()
      else socket.end('HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n')
    })
    onTestFinished(() => receiver.close())
    const { send } = senderTo(receiver.url)
    expect((await send()).status).toBe('succeeded')
    expect((await send()).error?.code).toMatch(/^connection_/)
    expect((await send()).status).toBe('succeeded')
  })
})

describe.each<CertificateName>(['expired', 'stranger', 'selfsigned'])('a certificate that is %s', (name) => {
  test('is rejected ten minutes after a valid one, even by a receiver that knows its ticket keys', async () => {
    const tls = { ticketKeys: randomBytes(48) }
    const good = await receiverFor(closing, { tls })
    const { clock, send } = senderTo(good.url)
    expect((await send()).status).toBe('succeeded')
    await good.close()
    const bad = await receiverFor(closing, { name, tls, port: portOf(good.url) })
    clock.nowMs += tenMinutesMs
    expect((await send()).error?.code).toBe('tls_certificate_invalid')
    expect((await send()).error?.code).toBe('tls_certificate_invalid')
    expect(bad.received).toEqual([])
  })

  // Fails if sessions are kept before verification and not discarded on failures.
  test.each(['TLSv1.3', 'TLSv1.2'] as const)('leaves no session to resume: %s', async (version) => {
    const receiver = await receiverFor(closing, { name, tls: { minVersion: version, maxVersion: version } })
    const { send } = senderTo(receiver.url)
    for (let i = 0; i < 3; i++) expect((await send()).error?.code).toBe('tls_certificate_invalid')
    expect(receiver.handshakes).not.toContain('resumed')
    expect(receiver.received).toEqual([])
  })
})

/* At moments that no real server can be made to choose, so the socket is a stand-in. */
describe('the offered ticket is', () => {
  function world() {
    const clock = { nowMs: 1_000_000 }
    const sessions = createTlsSessions(() => clock.nowMs)
    const connect = ({ resumed = false, authorized = true } = {}) => {
      const socket = Object.assign(new EventEmitter(), { authorized, isSessionReused: () => resumed })
      sessions.track(socket as unknown as TLSSocket, sessions.newest())
      socket.emit('secureConnect')
      return { ticket: (text: string) => socket.emit('session', Buffer.from(text)) }
    }
    return { clock, sessions, connect, offered: () => sessions.newest()?.ticket.toString() }
  }

  test('the newest', () => {
    const { connect, offered } = world()
    const connection = connect()
    connection.ticket('first')
    connection.ticket('second')
    expect(offered()).toBe('second')
    connect({ resumed: true }).ticket('renewed')
    expect(offered()).toBe('renewed')
  })

  test('not a late one of an older verification', () => {
    const { clock, connect, offered } = world()
    const old = connect()
    clock.nowMs += 1
    connect().ticket('young')
    old.ticket('old')
    expect(offered()).toBe('young')
  })

  test('none that was verified before a failure', () => {
    const { clock, sessions, connect, offered } = world()
    const before = connect()
    before.ticket('before')
    const resumed = connect({ resumed: true })
    sessions.discard()
    before.ticket('late')
    resumed.ticket('renewed')
    expect(offered()).toBeUndefined()
    clock.nowMs += 1
    connect().ticket('after')
    expect(offered()).toBe('after')
  })

  test('none of an unverified connection', () => {
    const { connect, offered } = world()
    connect({ authorized: false }).ticket('x')
    expect(offered()).toBeUndefined()
  })

  test('none from the future of a clock that was set back', () => {
    const { clock, connect, offered } = world()
    connect().ticket('x')
    clock.nowMs -= 1
    expect(offered()).toBeUndefined()
  })
})
