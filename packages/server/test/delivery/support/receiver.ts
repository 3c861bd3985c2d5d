import { readFileSync } from 'node:fs'
import { createServer as createHttpsServer, type Server, type ServerOptions } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import { join } from 'node:path'
import { createServer as createTlsServer, type TLSSocket } from 'node:tls'
import { onTestFinished } from 'vitest'

/*
 * Real receivers on loopback. The certificates were made once with openssl and run for a century; the authority's own key
 * was thrown away.
 */
const folder = join(import.meta.dirname, 'certificates')
export const caFile = join(folder, 'ca.pem')
export type CertificateName = 'receiver' | 'expired' | 'stranger' | 'selfsigned'
export const certificateFiles = (name: CertificateName) => ({
  key: join(folder, `${name}.key`),
  cert: join(folder, `${name}.pem`),
})
export const certificate = (name: CertificateName) => ({
  key: readFileSync(certificateFiles(name).key),
  cert: readFileSync(certificateFiles(name).cert),
})

export type Received = { path: string; headers: Record<string, string>; body: Buffer; at: number }
export type Reply = { status?: number; headers?: Record<string, string>; body?: string; delayMs?: number }

export type Receiver = {
  url: string
  received: Received[]
  /** Most requests that were being answered at the same moment. */
  readonly atOnce: number
  readonly connections: number
  /** Those that are open now. */
  readonly open: number
  /** One for each of them. */
  handshakes: ('full' | 'resumed')[]
  close(): Promise<void>
}

/** A well-behaved receiver: reads the request, records it, and sends the given answer. */
async function startReceiver(
  reply: (request: Received, count: number) => Reply | Promise<Reply> = () => ({}),
  {
    name = 'receiver' as CertificateName,
    port = 0,
    tls = {} as ServerOptions,
    prepare = (_server: Server): void => {},
  } = {},
): Promise<Receiver> {
  const received: Received[] = []
  let answering = 0
  let atOnce = 0
  let open = 0
  const handshakes: Receiver['handshakes'] = []
  const server = createHttpsServer({ ...certificate(name), ...tls }, (request, response) => {
    answering += 1
    atOnce = Math.max(atOnce, answering)
    const chunks: Buffer[] = []
    request.on('data', (chunk) => chunks.push(chunk))
    request.on('end', async () => {
      const headers = request.headers as Record<string, string>
      const one = { path: request.url!, headers, body: Buffer.concat(chunks), at: Date.now() }
      received.push(one)
      const { status = 200, headers: answered = {}, body = 'ok', delayMs = 0 } = await reply(one, received.length)
      if (delayMs > 0) await new Promise((done) => setTimeout(done, delayMs))
      answering -= 1
      response.writeHead(status, answered).end(body)
    })
  })
  server.on('secureConnection', (socket) => {
    handshakes.push(socket.isSessionReused() ? 'resumed' : 'full')
    open += 1
    socket.once('close', () => {
      open -= 1
    })
  })
  prepare(server)
  await new Promise<void>((done) => server.listen(port, '127.0.0.1', done))
  return {
    url: `https://127.0.0.1:${(server.address() as AddressInfo).port}/hook`,
    received,
    get atOnce() {
      return atOnce
    },
    get connections() {
      return handshakes.length
    },
    get open() {
      return open
    },
    handshakes,
    close: () =>
      new Promise<void>((done) => {
        server.close(() => done())
        server.closeAllConnections()
      }),
  }
}

/** The same, closed when the test is. */
export async function receiverFor(...options: Parameters<typeof startReceiver>): Promise<Receiver> {
  const receiver = await startReceiver(...options)
  onTestFinished(() => receiver.close())
  return receiver
}

/** The id of the event in a request. */
export const eventIdOf = (request: Received): string => JSON.parse(request.body.toString()).id

/** A hostile one: gets the bare TLS socket once something has arrived on it, and does what it likes. */
export async function startHostile(behave: (socket: TLSSocket, request: Buffer) => void) {
  const sockets = new Set<TLSSocket>()
  const server = createTlsServer(certificate('receiver'), (socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.on('close', () => sockets.delete(socket))
    socket.once('data', (request: Buffer) => behave(socket, request))
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  return {
    url: `https://127.0.0.1:${(server.address() as AddressInfo).port}/hook`,
    close: () =>
      new Promise<void>((done) => {
        server.close(() => done())
        for (const socket of sockets) socket.destroy()
      }),
  }
}

/** Ends the connection below TLS, without a word. */
export const resetBelow = (socket: TLSSocket): void =>
  void (socket as unknown as { _parent: Socket })._parent.resetAndDestroy()
