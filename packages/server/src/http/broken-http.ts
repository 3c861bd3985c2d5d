import { Fault } from '../kernel/faults.ts'
import { problemOf } from './problems.ts'

/** How long a client may take to send a request: enough for the largest body on a bad line, too short to hoard sockets. */
export const requestMsMax = 30_000

export const hostMissing = (): Fault => new Fault('request.malformed', { public: 'The Host header is missing.' })

/** Node knows one expectation, 100-continue, and has no error for others. */
export const expectationFailed: NodeJS.ErrnoException = Object.assign(new Error(), { code: 'EXPECTATION_FAILED' })

const details = {
  'request.header_too_large': 'The header lines together may have 16 KiB.',
  'request.timeout': `A request has to arrive within ${requestMsMax / 1_000} seconds.`,
  'request.expectation_failed': 'The only expectation that is known here is "100-continue".',
  'request.malformed': 'This is not HTTP/1.1 as RFC 9112 describes it.',
} as const

const codes: Record<string, keyof typeof details> = {
  HPE_HEADER_OVERFLOW: 'request.header_too_large',
  ERR_HTTP_REQUEST_TIMEOUT: 'request.timeout',
  EXPECTATION_FAILED: 'request.expectation_failed',
}

type Socket = { writable: boolean; end(text: string): void; destroy(): void }

/** The request never became one: there is no reply object, only a socket. */
export function answerBrokenHttp(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  const code = codes[error.code ?? ''] ?? 'request.malformed'
  const problem = problemOf(new Fault(code, { public: details[code] }))
  const body = JSON.stringify(problem)
  const head = [
    `HTTP/1.1 ${problem.status} ${problem.title}`,
    'content-type: application/problem+json; charset=utf-8',
    'cache-control: no-store',
    'connection: close',
    `content-length: ${Buffer.byteLength(body)}`,
  ]
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`)
}
