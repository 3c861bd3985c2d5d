import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyRequest } from 'fastify'
import { Fault } from '../kernel/faults.ts'
import type { Connections } from './connections.ts'
import { problemOf } from './problems.ts'

/** How long a request may take to arrive: enough for the largest body on a slow line, too short to collect sockets. */
export const requestMsMax = 30_000

const hostShape = /^[\w.~!$&'()*+;=%:[\]-]*$/
let lastValidHost = ''

/** Most requests have the same host as the one before, so that one is compared first. */
function isHost(host: string): boolean {
  if (host === lastValidHost) return true
  if (!hostShape.test(host)) return false
  lastValidHost = host
  return true
}

/** RFC 9112, 3.2: one Host (Node joins two by a comma), which only HTTP/1.0 may omit; no fragment; * only for OPTIONS. */
export function requestLineFault({ method, raw }: FastifyRequest): Fault | null {
  const { host } = raw.headers
  if (host === undefined ? raw.httpVersion !== '1.0' : !isHost(host)) {
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
