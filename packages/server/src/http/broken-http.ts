import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http'
import type { Duplex } from 'node:stream'
import type { FastifyRequest } from 'fastify'
import { Fault } from '../kernel/faults.ts'
import { problemOf } from './problems.ts'

/** How long a client may take to send a request: enough for the largest body on a bad line, too short to hoard sockets. */
export const requestMsMax = 30_000

/** RFC 9112, 3.2: without a Host, with two of them (which Node joins by a comma), or with one that cannot be. */
export const hostFault = (): Fault =>
  new Fault('request.malformed', { public: 'There has to be exactly one Host header, with a host and perhaps a port.' })

const hostShape = /^[\w.~!$&'()*+;=%:[\]-]*$/
let lastGoodHost = ''

/** Nearly every request names the same host as the one before. */
export function isHost(host: string): boolean {
  if (host === lastGoodHost) return true
  if (!hostShape.test(host)) return false
  lastGoodHost = host
  return true
}

/** RFC 9112, 3.2: nobody sends a fragment, which the router would cut off, and * is for OPTIONS. */
export const isTarget = (method: string, target: string): boolean =>
  !target.includes('#') && (target !== '*' || method === 'OPTIONS')

export const targetFault = (): Fault =>
  new Fault('request.malformed', { public: 'The target of a request is a path or a URL, without a fragment (#…).' })

/** Node hangs up on a CONNECT without a word. */
export const noProxy: NodeJS.ErrnoException = Object.assign(new Error(), { code: 'NO_PROXY' })

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
  NO_PROXY: 'request.method_not_allowed',
}

/** Node keeps the answer that a socket is busy with here, and the request that is arriving on it. */
type Socket = Duplex & {
  remoteAddress?: string | undefined
  _httpMessage?: ServerResponse | null
  parser?: { incoming: IncomingMessage | null } | null
}
/** Each is told once, though what follows the first broken thing is broken too. */
const told = new WeakSet<Socket>()

/** How long a client may take to read what it is told and hang up. */
const lingerMs = 1_000

/** What is refused without ever having become a request of ours, for the log. */
export type Broken = { code: keyof typeof details; status: number; address: string | undefined }

export function createBrokenHttp(deps: { log: { broken(one: Broken): void } }) {
  /** The request never became one: there is no reply object, only a socket. */
  function answerBroken(error: NodeJS.ErrnoException, socket: Socket): void {
    if (told.has(socket)) return
    if (error.code === 'ECONNRESET' || !socket.writable) {
      socket.destroy()
      return
    }
    const busy = socket._httpMessage
    if (busy?.req.complete) {
      // Requests that came before on the same connection are answered first: else this would be taken for their answer.
      told.add(socket)
      busy.once('close', () => {
        told.delete(socket)
        answerBroken(error, socket)
      })
    } else if (busy?.headersSent) socket.destroy()
    // Answered before all of it was here: what is wrong with the rest would be a second answer to one request.
    else if (!busy && socket.parser?.incoming?.complete === false) dismiss(socket, '')
    else {
      const answer = answerOf(codes[error.code ?? ''] ?? 'request.malformed')
      deps.log.broken({ ...answer, address: socket.remoteAddress })
      dismiss(socket, rawAnswer(answer))
    }
  }

  return {
    answerBroken,
    /**
     * Node knows one expectation, 100-continue. Unlike what is broken, this has a response, and needs it: behind an earlier
     * request there is no socket to write to yet.
     */
    answerExpectation(request: IncomingMessage, response: ServerResponse): void {
      const answer = answerOf('request.expectation_failed')
      deps.log.broken({ ...answer, address: request.socket.remoteAddress })
      response.writeHead(answer.status, answer.head).end(answer.body)
    },
  }
}

/**
 * The body of a request that is answered without it. So much of it is read and thrown away as a body may have, for clients
 * that write all of it before they look at the answer; whoever sends more is hung up on once the answer has left.
 */
export function skipBody({ raw, routeOptions }: FastifyRequest, answer: ServerResponse): void {
  // Node calls a request without a body complete only later, but its stream has ended.
  if (raw.complete || raw.readableEnded) return
  const bytesMax = routeOptions.bodyLimit
  let bytes = 0
  raw.on('data', function skip(chunk: Buffer) {
    bytes += chunk.length
    if (bytes <= bytesMax) return
    raw.off('data', skip)
    raw.pause()
    if (answer.writableFinished) dismiss(raw.socket, '')
    else answer.once('finish', () => dismiss(raw.socket, ''))
  })
}

/** Not destroyed at once: the answer would be lost with what is still arriving. */
function dismiss(socket: Socket, answer: string): void {
  told.add(socket)
  // Nobody else listens on the socket of a CONNECT any more: an error on it would end the process.
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
    // RFC 9110, 10.2.1: a list of nothing.
    ...(problem.status === 405 && { allow: '' }),
  }
  return { code, status: problem.status, head, body }
}
