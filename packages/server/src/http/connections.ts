import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Fault } from '../lib/faults.ts'
import { problemOf } from './problems.ts'

/** Pipelined requests that may wait on one connection. Each takes memory. */
const waitingMax = 200

/** The last two responses of a connection: Node finishes responses in order, so these say whether any is unfinished. */
type Connection = { last: ServerResponse | null; beforeLast: ServerResponse | null; waiting: number }

const unused: Readonly<Connection> = { last: null, beforeLast: null, waiting: 0 }

export type Connections = ReturnType<typeof trackConnections>

/** Turns of the event loop in which we wait for one without a new connection. */
const turnsMax = 1_000

/** Knows the responses of every open connection of a server. From the abort of `draining` on, every answer closes its connection. */
export function trackConnections(app: FastifyInstance, draining?: AbortSignal) {
  const connections = new Map<Socket, Connection>()
  let accepted = 0
  app.server.on('connection', (socket: Socket) => {
    accepted += 1
    // Node removes its own listener from the socket of a CONNECT; without one, an error would end the process.
    socket.on('error', () => {})
    connections.set(socket, { last: null, beforeLast: null, waiting: 0 })
    socket.once('close', () => connections.delete(socket))
  })
  app.server.prependListener('request', track)
  draining?.addEventListener('abort', closeAfterAnswers)
  app.addHook('preClose', (done) =>
    whenNoneArrives(() => {
      closeUnused()
      const sweep = setInterval(() => app.server.closeIdleConnections(), 50)
      app.server.once('close', () => clearInterval(sweep))
      done()
    }),
  )

  /**
   * Closing the port resets connections that the kernel has accepted and Node has not, and a proxy may have sent a request on them.
   * So it is closed in a turn of the event loop that found none.
   */
  function whenNoneArrives(next: () => void, turnsLeft = turnsMax): void {
    const before = accepted
    setImmediate(() => (accepted === before || turnsLeft === 0 ? next() : whenNoneArrives(next, turnsLeft - 1)))
  }

  function track(request: IncomingMessage, response: ServerResponse): void {
    const connection = connections.get(request.socket)
    if (connection === undefined) return
    connection.beforeLast = connection.last
    connection.last = response
    if (!draining?.aborted) return
    // Only on the last response: Node closes the connection after the first that has this header.
    if (connection.beforeLast?.headersSent === false) connection.beforeLast.setHeader('Connection', 'keep-alive')
    response.setHeader('Connection', 'close')
  }

  function closeAfterAnswers(): void {
    for (const { last } of connections.values()) {
      if (last?.headersSent === false) last.setHeader('Connection', 'close')
    }
  }

  /**
   * Stopping waits for requests in flight only. Node closes the connections that are idle at that time; not those that
   * become idle later, nor those without a request yet, such as a browser's spare.
   */
  function closeUnused(): void {
    for (const socket of connections.keys()) if (socket.bytesRead === 0) socket.destroy()
    closeAfterAnswers()
  }

  return {
    /** For a response that Node does not report by a `request` event. */
    track,
    of: (socket: Socket): Readonly<Connection> => connections.get(socket) ?? unused,
    /**
     * Runs `next` when the responses before this one have left: RFC 9112, 9.3.2 requires this of requests that change
     * something. When the client has disconnected, its waiting requests are dropped.
     */
    inTurn({ raw: response }: FastifyReply, next: () => void): void {
      const { socket } = response.req
      const connection = connections.get(socket)
      const before = connection?.beforeLast ?? null
      if (connection === undefined || before === null || before.writableFinished) {
        next()
        return
      }
      connection.waiting += 1
      if (connection.waiting > waitingMax) socket.destroy()
      before.once('close', () => {
        connection.waiting -= 1
        if (!socket.destroyed) next()
      })
    },
  }
}

/** How long a request may take to arrive: enough for the largest body on a slow line, too short to collect sockets. */
export const requestMsMax = 30_000

const hostShape = /^[\w.~!$&'()*+;=%:[\]-]*$/

/** RFC 9112, 3.2: one Host (Node joins two by a comma), which only HTTP/1.0 may omit; no fragment; * only for OPTIONS. */
export function requestLineFault({ method, raw }: FastifyRequest): Fault | null {
  const { host } = raw.headers
  if (host === undefined ? raw.httpVersion !== '1.0' : !hostShape.test(host)) {
    return new Fault('request.malformed', {
      public: 'There has to be exactly one Host header, with a host and perhaps a port.',
    })
  }
  const target = raw.url!
  if (!target.includes('#') && (target !== '*' || method === 'OPTIONS')) return null
  return new Fault('request.malformed', {
    public: 'The target of a request is a path or a URL, without a fragment (#…).',
  })
}

/** Node closes the connection of a CONNECT without an answer. */
export const proxyRequested: NodeJS.ErrnoException = Object.assign(new Error(), { code: 'PROXY_REQUESTED' })

const details = {
  'request.header_too_large': 'The header lines together may have 16 KiB.',
  'request.timeout': `A request has to arrive within ${requestMsMax / 1_000} seconds.`,
  'request.expectation_failed': 'The only expectation that is known here is "100-continue".',
  'request.malformed': 'This is not HTTP/1.1 as RFC 9112 describes it.',
  'request.method_not_allowed': 'This is not a proxy.',
} as const

const codes: Record<string, keyof typeof details> = {
  HPE_HEADER_OVERFLOW: 'request.header_too_large',
  ERR_HTTP_REQUEST_TIMEOUT: 'request.timeout',
  PROXY_REQUESTED: 'request.method_not_allowed',
}

/** Sockets that have their last answer, or wait for it. Whatever follows the first error is an error too. */
const closing = new WeakSet<Socket>()

/** How long a client may take to read its answer and disconnect. */
const lingerMs = 1_000

/** A request that was refused before Fastify saw it. */
export type MalformedRequest = { code: keyof typeof details; status: number; address: string | undefined }

export function createMalformedRequests(deps: {
  connections: Connections
  log: { malformed(request: MalformedRequest): void }
}) {
  /** There is no reply object, only a socket. */
  function answerError(error: NodeJS.ErrnoException, socket: Socket): void {
    if (closing.has(socket)) return
    if (error.code === 'ECONNRESET' || !socket.writable) {
      socket.destroy()
      return
    }
    const { last, beforeLast } = deps.connections.of(socket)
    // Otherwise the error is inside of the last request: in its body, or because that takes too long.
    const isBehindLast = last === null || last.req.complete
    const before = isBehindLast ? last : beforeLast
    if (before !== null && !before.writableFinished) {
      // Earlier requests are answered first: otherwise this would be read as their answer.
      closing.add(socket)
      before.once('close', () => {
        closing.delete(socket)
        answerError(error, socket)
      })
    } else if (!isBehindLast && last.writableFinished) {
      // The request has its answer; a second one would belong to no request.
      closeSoon(socket, '')
    } else if (!isBehindLast && last.headersSent) {
      socket.destroy()
    } else {
      const answer = answerOf(codes[error.code ?? ''] ?? 'request.malformed')
      deps.log.malformed({ ...answer, address: socket.remoteAddress })
      closeSoon(socket, rawAnswer(answer))
    }
  }

  return {
    answerError,
    /** An unknown expectation has a response, and needs it: behind an earlier request the socket is not free yet. */
    answerExpectation(request: IncomingMessage, response: ServerResponse): void {
      deps.connections.track(request, response)
      const answer = answerOf('request.expectation_failed')
      deps.log.malformed({ ...answer, address: request.socket.remoteAddress })
      response.writeHead(answer.status, answer.head).end(answer.body)
    },
  }
}

/**
 * Discards the body of a request that is answered without it, up to the size that a body may have: some clients write all of
 * it before they read the answer. With a larger body, the connection is closed once the answer has left.
 */
export function skipBody({ raw, routeOptions }: FastifyRequest, answer: ServerResponse): void {
  // Without a body, `complete` is set later, but the stream has ended.
  if (raw.complete || raw.readableEnded) return
  const bytesMax = routeOptions.bodyLimit
  let bytes = 0
  raw.on('data', function skip(chunk: Buffer) {
    bytes += chunk.length
    if (bytes <= bytesMax) return
    raw.off('data', skip)
    raw.pause()
    if (answer.writableFinished) closeSoon(raw.socket, '')
    else answer.once('finish', () => closeSoon(raw.socket, ''))
  })
}

/** Not destroyed at once: with data still arriving, the client would get a reset instead of the answer. */
function closeSoon(socket: Socket, answer: string): void {
  closing.add(socket)
  socket.on('error', () => socket.destroy())
  socket.end(answer)
  socket.resume()
  setTimeout(() => socket.destroy(), lingerMs).unref()
}

function rawAnswer({ status, head, body }: ReturnType<typeof answerOf>): string {
  const lines = Object.entries(head).map(([name, value]) => `${name}: ${value}`)
  const date = `date: ${new Date().toUTCString()}`
  return [`HTTP/1.1 ${status} ${STATUS_CODES[status]}`, date, ...lines, '', body].join('\r\n')
}

function answerOf(code: keyof typeof details) {
  const problem = problemOf(new Fault(code, { public: details[code] }))
  const body = JSON.stringify(problem)
  const head = {
    'content-type': 'application/problem+json; charset=utf-8',
    'cache-control': 'no-store',
    connection: 'close',
    'content-length': String(Buffer.byteLength(body)),
    // RFC 9110, 10.2.1: an empty list.
    ...(problem.status === 405 && { allow: '' }),
  }
  return { code, status: problem.status, head, body }
}
