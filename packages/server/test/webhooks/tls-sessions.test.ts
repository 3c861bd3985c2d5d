import { constants, randomBytes } from 'node:crypto'
import { EventEmitter } from 'node:events'
import type { Server, ServerOptions } from 'node:https'
import type { TLSSocket } from 'node:tls'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { Exchange } from '../../src/webhooks/sending/exchange.ts'
import { createReceiverConnections } from '../../src/webhooks/sending/receiver-connections.ts'
import type { Resolve } from '../../src/webhooks/sending/resolve.ts'
import { createTlsSessions } from '../../src/webhooks/sending/tls-sessions.ts'
import { type CertificateName, receiverFor, startHostile } from './support/receiver.ts'
import { connectWith, idleConnections, limits } from './support/sender.ts'

const tenMinutesMs = 600_000

/** One webhook's sender, on a clock that the test sets. */
function senderTo(url: string, { resolve }: { resolve?: Resolve } = {}) {
  const clock = { nowMs: 1_000_000 }
  const connect = connectWith(resolve === undefined ? {} : { resolve })
  const receiver = createReceiverConnections(new URL(url), { connect, limits, idleConnections, now: () => clock.nowMs })
  onTestFinished(() => receiver.close())
  return { clock, send: () => new Promise<Exchange>((done) => receiver.send([], Buffer.from('{}'), done)) }
}

/** Every request has a connection of its own. */
const closing = () => ({ headers: { connection: 'close' } })
const portOf = (url: string) => Number(new URL(url).port)

/** A receiver that knows sessions by their id and keeps them itself, as servers without tickets do. */
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

/** A receiver that sends a new ticket with every resumption. Many do; Node has it for its own tests only. */
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

test('a resumed connection has its timings like any other', async () => {
  const receiver = await receiverFor(closing)
  const { send } = senderTo(receiver.url)
  await send()
  expect(await send()).toMatchObject({ connectUs: expect.any(Number), tlsUs: expect.any(Number) })
})

// Seen to fail when tickets are awaited from the moment the socket is made.
test('a name whose first address is dead resumes as well', async () => {
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

// Seen to fail when all receivers of a process share their sessions.
test('another webhook to the same receiver shares nothing', async () => {
  const receiver = await receiverFor(closing)
  await senderTo(receiver.url).send()
  await senderTo(receiver.url).send()
  expect(receiver.handshakes).toEqual(['full', 'full'])
})

// Seen to fail when the time counts from the last ticket.
test('ten minutes after a certificate was verified it is verified again, however often tickets were renewed', async () => {
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
  'a receiver that restarts with new keys is delivered to: %s',
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

describe('a receiver that chokes on sessions fails one attempt and not the next', () => {
  // Both seen to fail when nothing is dropped.
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
          done(known.has(id.toString('hex')) ? new Error('choked') : null, null),
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
  // Seen to fail when sessions are used for ever.
  test('is refused once the time of a good session is over, by whoever knows its ticket', async () => {
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

  // Seen to fail (the stranger got in) when a session is kept before it is verified, and failures drop nothing.
  test.each(['TLSv1.3', 'TLSv1.2'] as const)('leaves no session behind: %s', async (version) => {
    const receiver = await receiverFor(closing, { name, tls: { minVersion: version, maxVersion: version } })
    const { send } = senderTo(receiver.url)
    for (let i = 0; i < 3; i++) expect((await send()).error?.code).toBe('tls_certificate_invalid')
    expect(receiver.handshakes).not.toContain('resumed')
    expect(receiver.received).toEqual([])
  })
})

/* Tickets at moments that no server can be made to choose; the socket is a stand-in. */
describe('which ticket is offered', () => {
  function world() {
    const clock = { nowMs: 1_000_000 }
    const sessions = createTlsSessions(() => clock.nowMs)
    const connect = ({ resumed = false, authorized = true } = {}) => {
      const socket = Object.assign(new EventEmitter(), { authorized, isSessionReused: () => resumed })
      sessions.follow(socket as unknown as TLSSocket, sessions.offer())
      socket.emit('secureConnect')
      return { ticket: (text: string) => socket.emit('session', Buffer.from(text)) }
    }
    return { clock, sessions, connect, offered: () => sessions.offer()?.ticket.toString() }
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

  test('not one of an older verification, however late it comes', () => {
    const { clock, connect, offered } = world()
    const old = connect()
    clock.nowMs += 1
    connect().ticket('young')
    old.ticket('old')
    expect(offered()).toBe('young')
  })

  test('after a failure none that rests on what was verified before it', () => {
    const { clock, sessions, connect, offered } = world()
    const before = connect()
    before.ticket('before')
    const resumed = connect({ resumed: true })
    sessions.drop()
    before.ticket('late')
    resumed.ticket('renewed')
    expect(offered()).toBeUndefined()
    clock.nowMs += 1
    connect().ticket('after')
    expect(offered()).toBe('after')
  })

  test('none of a connection that was let through unverified', () => {
    const { connect, offered } = world()
    connect({ authorized: false }).ticket('x')
    expect(offered()).toBeUndefined()
  })

  test('none while the clock says that it is from the future', () => {
    const { clock, connect, offered } = world()
    connect().ticket('x')
    clock.nowMs -= 1
    expect(offered()).toBeUndefined()
  })
})
