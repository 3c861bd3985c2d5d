import type { ConnectionFacts } from './connect.ts'
import type { Connection, ConnectionListener } from './connection.ts'
import type { RawHeaders, ResponseHead } from './response-parser.ts'
import { SendError, startDeadline } from './send-error.ts'

export type PostLimits = {
  /** One deadline for DNS, connection, request and the whole response. */
  attemptMsMax: number
  /** How much of a response's body is kept. */
  responseKeptBytesMax: number
  /** How much of it is read before the connection is closed and the attempt fails. */
  responseBytesMax: number
}

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

const noBytes = Buffer.alloc(0)

/** One POST until its end, which is reported exactly once. */
export class Post implements ConnectionListener {
  connection: Connection | null = null
  facts: ConnectionFacts
  #limits: PostLimits
  #done: (result: PostResult) => void
  #startedMs = performance.now()
  #cancelDeadline: () => void
  #isDone = false
  #firstByteUs: number | null = null
  #head: ResponseHead | null = null
  #kept: Buffer[] = []
  #keptBytes = 0
  #bytes = 0

  constructor(facts: ConnectionFacts, limits: PostLimits, done: (result: PostResult) => void) {
    this.facts = facts
    this.#limits = limits
    this.#done = done
    this.#cancelDeadline = startDeadline(
      limits.attemptMsMax,
      (error) => this.onError(error),
      () => new SendError('timeout', `Not finished within ${limits.attemptMsMax} ms.`),
    )
  }

  get isDone(): boolean {
    return this.#isDone
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
    if (this.#isDone) return
    this.#isDone = true
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
        body: this.#body(),
        isTruncated: this.#bytes > this.#keptBytes,
        isComplete: error === null,
      },
      error,
    })
  }

  #body(): Buffer {
    if (this.#kept.length === 0) return noBytes
    return this.#kept.length === 1 ? this.#kept[0]! : Buffer.concat(this.#kept)
  }
}
