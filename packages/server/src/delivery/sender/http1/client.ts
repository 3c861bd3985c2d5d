import { constants } from 'node:crypto'
import { createSecureContext, getCACertificates } from 'node:tls'
import { takeOut } from '../../../lib/lists.ts'
import { SendError } from '../../send-errors.ts'
import { type ConnectionFacts, createConnect, createTlsSessions, type Resolve, startDeadline } from './connect.ts'
import { Connection, type ConnectionListener } from './connection.ts'
import type { RawHeaders, ResponseHead } from './response-parser.ts'

/*
 * An HTTP/1.1 client for webhook receivers, which may be hostile: POST only, one request at a time on a connection, llhttp as parser.
 *
 * Why not a general client: a signed request took 81 µs with undici's and takes 59 µs here, so deliveries at full load were a fifth
 * slower. undici also closed the connection on an unsolicited `100 Continue`, and called a response cut off in a chunk malformed.
 * And three guarantees have to hold at the socket: one deadline from DNS to the last byte, the address check on the connected
 * socket, and limits on everything that is read.
 *
 * This file is the interface of the folder; nothing else in it is imported from outside.
 */

export type { Address, Resolve } from './connect.ts'
export { headerValues, type RawHeaders } from './response-parser.ts'

export type Http1Limits = {
  /** One deadline for DNS, connection, request and the whole response. */
  attemptMsMax: number
  /** Part of the one deadline: for DNS, TCP and TLS. */
  connectMsMax: number
  responseHeaderBytesMax: number
  /** How much of a response's body is kept. */
  responseKeptBytesMax: number
  /** How much of it is read before the connection is closed and the attempt fails. */
  responseBytesMax: number
  /** Connections that are kept open between requests, over all receivers. Each takes about 65 KB. */
  idleMax: number
}

type PostRequest = {
  body: Buffer
  /** The request is written by then (wall clock); later only if `mayStillSend` resolves to true. */
  sendByMs: number
  mayStillSend(): Promise<boolean>
}

/** One receiver, with its own connections and TLS sessions. A connection is reused as long as the receiver keeps it open. */
export type Http1Client = ReturnType<ReturnType<typeof createHttp1Clients>>

export function createHttp1Clients(options: {
  resolve: Resolve
  isAllowed(address: string): boolean
  /** PEM of certificates that are trusted besides the usual ones. */
  extraCa: string | null
  limits: Http1Limits
  now(): number
}) {
  const { limits, extraCa, now } = options
  const secureContext = createSecureContext({
    ca: [...getCACertificates('default'), ...(extraCa === null ? [] : [extraCa])],
    // With TLS 1.2 a receiver could otherwise repeat the handshake as often as it likes.
    secureOptions: constants.SSL_OP_NO_RENEGOTIATION,
  })
  const connect = createConnect({ ...options, secureContext, connectMsMax: limits.connectMsMax })
  const connectionLimits = {
    headerBytesMax: limits.responseHeaderBytesMax,
    // Chunked bodies take more than their bytes, and there are headers.
    bytesMax: 2 * limits.responseBytesMax + 4 * limits.responseHeaderBytesMax,
  }
  /** Idle connections of all clients, least recently used first. */
  const allIdle = new Set<Connection>()

  return (url: URL) => {
    const target = { hostname: url.hostname.replace(/^\[|\]$/g, ''), port: Number(url.port || 443) }
    const requestStart = requestStartOf(url)
    const sessions = createTlsSessions(now)
    const idle: Connection[] = []
    const inFlight: Post[] = []
    let isClosed = false

    function sendOnNew(post: Post, request: Buffer, given: PostRequest): void {
      const facts = factsOf(null)
      post.facts = facts
      connect(target, sessions, facts, (error, socket) => {
        if (error !== null) return post.onError(error)
        if (post.isDone) return void socket!.destroy()
        const connection = new Connection(socket!, facts.address, connectionLimits, forget)
        post.connection = connection
        whenAllowed(given, (tooLate) => {
          if (tooLate !== null) post.onError(tooLate)
          else if (connection.isClosed) post.onError(closedBeforeRequest())
          else connection.send(request, post)
        })
      })
    }

    /** Asks when it has become late. If the database cannot answer, the attempt does not leave. */
    function whenAllowed(given: PostRequest, then: (tooLate: SendError | null) => void): void {
      if (now() <= given.sendByMs) then(null)
      else {
        const allowed = given.mayStillSend().catch(() => false)
        void allowed.then((isAllowed) => then(isAllowed ? null : sendByPassed()))
      }
    }

    /**
     * Reads first what has arrived since the last response: if the receiver closed the connection or sent unsolicited bytes,
     * the request goes out on a new one.
     */
    function sendOnIdle(connection: Connection, post: Post, request: Buffer, given: PostRequest): void {
      post.connection = connection
      setImmediate(() => {
        if (post.isDone) return
        if (connection.isReusable && connection.isDrained) return connection.send(request, post)
        connection.close()
        post.connection = null
        sendOnNew(post, request, given)
      })
    }

    function takeIdle(): Connection | null {
      for (;;) {
        const connection = idle.pop()
        if (connection === undefined) return null
        allIdle.delete(connection)
        if (connection.isReusable) return connection
        connection.close()
      }
    }

    function keepIdle(connection: Connection): void {
      idle.push(connection)
      allIdle.add(connection)
      if (allIdle.size <= limits.idleMax) return
      const [leastRecentlyUsed] = allIdle
      leastRecentlyUsed!.close()
    }

    function forget(connection: Connection): void {
      takeOut(idle, connection)
      allIdle.delete(connection)
    }

    function closeIdle(): void {
      for (const connection of idle.splice(0)) connection.close()
    }

    return {
      /** `headers` are ours and contain no line break. Calls `done` exactly once, and never throws. */
      post(headers: RawHeaders, given: PostRequest, done: (result: PostResult) => void): void {
        const reused = takeIdle()
        const post = new Post(factsOf(reused?.address ?? null), limits, (result) => {
          takeOut(inFlight, post)
          const { connection } = post
          post.connection = null
          // The receiver may have failed because of the resumed session, so the next connection starts without one.
          const hasFailed = result.error !== null && result.error.code !== 'interrupted'
          if (result.connectUs !== null && result.response === null && hasFailed) sessions.discard()
          if (connection?.isReusable) isClosed ? connection.close() : keepIdle(connection)
          done(result)
        })
        inFlight.push(post)
        const request = requestBytes(requestStart, headers, given.body)
        if (reused === null) sendOnNew(post, request, given)
        else sendOnIdle(reused, post, request, given)
      },
      /** Ends every request in flight with the error `interrupted`. */
      interrupt(): void {
        for (const post of [...inFlight]) post.onError(new SendError('interrupted', 'The dispatcher is stopping.'))
      },
      closeIdle,
      /** Closes idle connections now, and those in flight after their response. */
      close(): void {
        isClosed = true
        closeIdle()
      },
    }
  }
}

/** The path as recorded: `search` would leave out a question mark with nothing behind it. */
const requestStartOf = (url: URL): string =>
  `POST ${url.href.slice(url.origin.length)} HTTP/1.1\r\nhost: ${url.host}\r\nconnection: keep-alive\r\n`

function requestBytes(start: string, headers: RawHeaders, body: Buffer): Buffer {
  let head = start
  for (let i = 0; i < headers.length; i += 2) head += `${headers[i]}: ${headers[i + 1]}\r\n`
  head += `content-length: ${body.length}\r\n\r\n`
  const request = Buffer.allocUnsafe(head.length + body.length)
  request.write(head, 'latin1')
  request.set(body, head.length)
  return request
}

const factsOf = (address: string | null): ConnectionFacts => ({ address, dnsUs: null, connectUs: null, tlsUs: null })

const sendByPassed = () =>
  new SendError('interrupted', 'Connecting took too long: the attempt may not be sent any more.')
const closedBeforeRequest = () =>
  new SendError('connection_reset', 'The receiver closed the connection before it was sent anything.')

/** `isTruncated`: the body was longer than what is kept. `isComplete`: the response was received to its end. */
export type PostResponse = {
  status: number
  headers: RawHeaders
  body: Buffer
  isTruncated: boolean
  isComplete: boolean
}

/** `error` is null when a whole response was received, whatever its status. */
export type PostResult = ConnectionFacts & {
  durationUs: number
  firstByteUs: number | null
  response: PostResponse | null
  error: SendError | null
}

/** One POST until its end, which is reported exactly once. */
class Post implements ConnectionListener {
  connection: Connection | null = null
  facts: ConnectionFacts
  isDone = false
  #limits: Http1Limits
  #done: (result: PostResult) => void
  #startedMs = performance.now()
  #cancelDeadline: () => void
  #firstByteUs: number | null = null
  #head: ResponseHead | null = null
  #kept: Buffer[] = []
  #keptBytes = 0
  #bytes = 0

  constructor(facts: ConnectionFacts, limits: Http1Limits, done: (result: PostResult) => void) {
    this.facts = facts
    this.#limits = limits
    this.#done = done
    this.#cancelDeadline = startDeadline(
      limits.attemptMsMax,
      (error) => this.onError(error),
      () => new SendError('timeout', `Not finished within ${limits.attemptMsMax} ms.`),
    )
  }

  onHead(head: ResponseHead): void {
    this.#firstByteUs = this.#elapsedUs()
    this.#head = head
  }

  onBody(bytes: Buffer): void {
    this.#bytes += bytes.length
    const room = this.#limits.responseKeptBytesMax - this.#keptBytes
    if (room > 0) {
      const kept = bytes.length > room ? bytes.subarray(0, room) : bytes
      this.#keptBytes += kept.length
      // A copy: a view would keep the whole received buffer.
      this.#kept.push(Buffer.from(kept))
    }
    if (this.#bytes <= this.#limits.responseBytesMax) return
    this.onError(
      new SendError('response_too_large', `The response's body is over ${this.#limits.responseBytesMax} bytes.`),
    )
  }

  onEnd(): void {
    this.#finish(null)
  }

  onError(error: SendError): void {
    this.#finish(error)
  }

  #elapsedUs(): number {
    return Math.round((performance.now() - this.#startedMs) * 1_000)
  }

  #finish(error: SendError | null): void {
    if (this.isDone) return
    this.isDone = true
    this.#cancelDeadline()
    if (error !== null) this.connection?.close()
    const { address, dnsUs, connectUs, tlsUs } = this.facts
    this.#done({
      durationUs: this.#elapsedUs(),
      firstByteUs: this.#firstByteUs,
      address,
      dnsUs,
      connectUs,
      tlsUs,
      response: this.#head && {
        status: this.#head.status,
        headers: this.#head.headers,
        body: this.#kept.length === 1 ? this.#kept[0]! : Buffer.concat(this.#kept),
        isTruncated: this.#bytes > this.#keptBytes,
        isComplete: error === null,
      },
      error,
    })
  }
}
