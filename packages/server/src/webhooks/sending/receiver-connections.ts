import type { TLSSocket } from 'node:tls'
import type { Dispatcher, Client as HttpClient } from 'undici'
import { recordHeaders } from '../../domain/recorded-headers.ts'
import { takeOut } from '../../kernel/lists.ts'
import type { RecordedResponse } from '../../store/delivery/attempts.ts'
import type { Connect, ConnectionFacts } from './connector.ts'
import { deadline } from './deadline.ts'
import { type Exchange, judge, recordedText, retryAfterOf } from './exchange.ts'
import { Client } from './http-client.ts'
import type { IdleConnection, IdleConnections } from './idle-connections.ts'
import { SendError, type Stage, sendErrorOf } from './send-error.ts'
import { createTlsSessions } from './tls-sessions.ts'

export type SendLimits = {
  /** Over everything: name, connection, request, response, body. */
  attemptMsMax: number
  /** How much of a response's body is kept. */
  responseKeptBytesMax: number
  /** How much of it is read before the connection is dropped and the attempt has failed. */
  responseBytesMax: number
  responseHeaderBytesMax: number
}

/** Name, value, name, value: as undici wants them. */
export type FlatHeaders = string[]

/**
 * Until when a request may leave without asking (webhooks/dispatching/leaving.ts). To name, connect and greet a receiver may take
 * seconds, and its webhook may be gone by then.
 */
export type Leave = { overMs: number; mayGo(): Promise<boolean> }

/** One webhook's connections. A connection carries one request at a time and is kept while the receiver keeps it. */
export type Receiver = {
  send(headers: FlatHeaders, body: Buffer, done: (exchange: Exchange) => void, leave?: Leave): void
  /** Ends every attempt that is on its way; each is reported as interrupted. */
  interrupt(): void
  /** Closes connections that carry nothing; those that do are kept as always. */
  closeIdle(): void
  /** And keeps no connection any more. */
  close(): void
}

type Connection = IdleConnection & {
  client: HttpClient
  facts: ConnectionFacts
  stage: Stage
  fresh: boolean
  socket: TLSSocket | null
  /** What the socket had received before the attempt that it carries. */
  bytesBefore: number
  /** What it carries, and until when that may leave. */
  attempt: Attempt | null
  leave: Leave | undefined
}

export function createReceiverConnections(
  url: URL,
  deps: { connect: Connect; limits: SendLimits; idleConnections: IdleConnections; now(): number },
): Receiver {
  const { limits, idleConnections } = deps
  const target = { hostname: url.hostname.replace(/^\[|\]$/g, ''), port: Number(url.port || 443) }
  // As it is recorded: a question mark with nothing behind it is no part of the search, and is called all the same.
  const path = url.href.slice(url.origin.length)
  const sessions = createTlsSessions(deps.now)
  const idle: Connection[] = []
  const busy: Connection[] = []
  /** A body in chunks takes more than its bytes, and there are headers. */
  const allBytesMax = 2 * limits.responseBytesMax + 4 * limits.responseHeaderBytesMax
  let closed = false

  function openConnection(): Connection {
    const connection: Connection = {
      client: undefined as never,
      facts: noFacts(),
      stage: 'dns',
      fresh: true,
      socket: null,
      bytesBefore: 0,
      attempt: null,
      leave: undefined,
      older: null,
      newer: null,
      close() {
        takeOut(idle, connection)
        discard(connection)
      },
    }
    connection.client = new Client(url.origin, {
      // undici may have to connect again on the same client; each time the facts are of the newest socket.
      connect: (_options, callback) => {
        connection.facts = noFacts()
        connection.stage = 'connect'
        connection.fresh = true
        deps.connect(target, sessions, connection.facts, (error, socket) => {
          if (error !== null) return callback(error, null)
          whenItMayLeave(connection.leave, socket!, (refused) => {
            if (refused !== null) return callback(refused, null)
            connection.stage = 'exchange'
            connection.socket = socket
            connection.bytesBefore = socket!.bytesRead
            socket!.on('readable', () => watch(connection, socket!))
            callback(null, socket!)
          })
        })
      },
      allowH2: false,
      pipelining: 1,
      maxHeaderSize: limits.responseHeaderBytesMax,
      // One deadline covers everything; undici's own would only add a second answer to the same question.
      headersTimeout: 0,
      bodyTimeout: 0,
    })
    return connection
  }

  /** Mostly at once. Should the database be away, nobody knows: then it is begun again when it is back. */
  function whenItMayLeave(
    leave: Leave | undefined,
    socket: TLSSocket,
    done: (refused: SendError | null) => void,
  ): void {
    if (leave === undefined || deps.now() <= leave.overMs) {
      done(null)
      return
    }
    // Nobody else hears it until it is undici's.
    const ignore = () => {}
    socket.on('error', ignore)
    void leave
      .mayGo()
      .catch(() => false)
      .then((mayGo) => {
        if (!mayGo || socket.destroyed) {
          socket.destroy()
          done(mayGo ? hungUp() : tooLate())
        } else {
          socket.off('error', ignore)
          done(null)
        }
      })
  }

  /** Not all that a receiver sends is a body: interim responses, chunk extensions and the like have no end either. */
  function watch(connection: Connection, socket: TLSSocket): void {
    if (socket.bytesRead - connection.bytesBefore <= allBytesMax) return
    connection.attempt?.cut(new SendError('response_too_large', `The response is over ${allBytesMax} bytes in all.`))
  }

  function takeConnection(): Connection {
    for (;;) {
      const connection = idle.pop()
      if (connection === undefined) return openConnection()
      idleConnections.remove(connection)
      if (!connection.client.destroyed) return connection
    }
  }

  function keep(connection: Connection): void {
    idle.push(connection)
    idleConnections.add(connection)
  }

  function closeIdle(): void {
    for (const connection of idle.splice(0)) {
      idleConnections.remove(connection)
      discard(connection)
    }
  }

  return {
    send(headers, body, done, leave) {
      const connection = takeConnection()
      connection.leave = leave
      const attempt = new Attempt(connection, limits, (exchange, reusable) => {
        takeOut(busy, connection)
        connection.attempt = null
        // A receiver may choke on a session in its handshake or right after it; one bad ticket must not fail every attempt.
        const connected = exchange.connectUs !== null
        if (connected && exchange.status === 'failed' && exchange.response === null) sessions.drop()
        if (reusable && !closed) keep(connection)
        else discard(connection)
        done(exchange)
      })
      busy.push(connection)
      connection.attempt = attempt
      connection.bytesBefore = connection.socket?.bytesRead ?? 0
      connection.client.dispatch({ path, method: 'POST', headers, body }, attempt)
    },
    interrupt() {
      for (const { attempt } of [...busy]) attempt?.cut(new SendError('interrupted', 'The dispatcher is stopping.'))
    },
    closeIdle,
    close() {
      closed = true
      closeIdle()
    },
  }
}

const tooLate = () => new SendError('interrupted', 'Connecting took so long that the attempt may not leave any more.')
const hungUp = () => new SendError('connection_reset', 'The receiver hung up before it was sent anything.')

const discard = ({ client }: Connection): void => void client.destroy(null, () => {})

const noFacts = (): ConnectionFacts => ({ address: null, dnsUs: null, connectUs: null, tlsUs: null })

/** undici calls it as the response comes in; whatever happens first, the end is reported exactly once. */
class Attempt implements Dispatcher.DispatchHandler {
  #connection: Connection
  #limits: SendLimits
  #report: (exchange: Exchange, reusable: boolean) => void
  #begun = performance.now()
  #callOff: () => void
  #over = false
  #firstByteUs: number | null = null
  #status = 0
  #headers: Record<string, string | string[] | undefined> = {}
  #kept: Buffer[] = []
  #keptBytes = 0
  #bytes = 0

  constructor(connection: Connection, limits: SendLimits, report: (exchange: Exchange, reusable: boolean) => void) {
    this.#connection = connection
    this.#limits = limits
    this.#report = report
    this.#callOff = deadline(
      limits.attemptMsMax,
      (error) => this.cut(error),
      () => new SendError('timeout', `Not finished within ${limits.attemptMsMax} ms.`),
    )
  }

  cut(error: SendError): void {
    this.#finish(error, false)
  }

  onRequestStart(): void {}

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: Record<string, string | string[] | undefined>,
  ): void {
    // 1xx: a word on the way, not the answer.
    if (status < 200) return
    this.#firstByteUs = this.#elapsedUs()
    this.#status = status
    this.#headers = headers
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#bytes += chunk.length
    const room = this.#limits.responseKeptBytesMax - this.#keptBytes
    if (room > 0) {
      const kept = chunk.length > room ? chunk.subarray(0, room) : chunk
      this.#keptBytes += kept.length
      // A copy: the chunk is a window on a buffer that the parser uses again.
      this.#kept.push(Buffer.from(kept))
    }
    if (this.#bytes > this.#limits.responseBytesMax) {
      this.cut(
        new SendError('response_too_large', `The response's body is over ${this.#limits.responseBytesMax} bytes.`),
      )
    }
  }

  onResponseEnd(): void {
    this.#finish(judge(this.#status, this.#headers), true)
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    // undici calls it a body of the wrong length even where the header never came to its end.
    const isHeaderBroken =
      this.#firstByteUs === null && 'code' in error && error.code === 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH'
    const cause = isHeaderBroken
      ? new SendError('response_malformed', 'The header of the response is not HTTP.')
      : error
    this.#finish(sendErrorOf(cause, this.#connection.stage), false)
  }

  #elapsedUs(): number {
    return Math.round((performance.now() - this.#begun) * 1_000)
  }

  #finish(error: SendError | null, ended: boolean): void {
    if (this.#over) return
    this.#over = true
    this.#callOff()
    const { facts, fresh } = this.#connection
    this.#connection.fresh = false
    const exchange: Exchange = {
      status: error === null ? 'succeeded' : error.code === 'interrupted' ? 'interrupted' : 'failed',
      durationUs: this.#elapsedUs(),
      firstByteUs: this.#firstByteUs,
      address: facts.address,
      dnsUs: fresh ? facts.dnsUs : null,
      connectUs: fresh ? facts.connectUs : null,
      tlsUs: fresh ? facts.tlsUs : null,
      response: this.#response(ended),
      error: error && { code: error.code, detail: error.message },
      gone: this.#status === 410,
      retryAfterMs: error === null ? null : retryAfterOf(this.#headers, Date.now()),
    }
    this.#report(exchange, ended)
  }

  #response(ended: boolean): RecordedResponse | null {
    if (this.#firstByteUs === null) return null
    return {
      status: this.#status,
      headers: recordHeaders(flatten(this.#headers)),
      body: recordedText(this.#kept, this.#bytes > this.#keptBytes),
      complete: ended && this.#bytes === this.#keptBytes,
    }
  }
}

function flatten(headers: Readonly<Record<string, string | string[] | undefined>>): FlatHeaders {
  const flat: FlatHeaders = []
  for (const name in headers) {
    const value = headers[name]
    if (typeof value === 'string') flat.push(name, value)
    else for (const one of value ?? []) flat.push(name, one)
  }
  return flat
}
