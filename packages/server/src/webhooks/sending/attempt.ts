import { recordHeaders } from '../../domain/recorded-headers.ts'
import type { RecordedResponse } from '../../store/delivery/attempts.ts'
import type { Carried, Connection } from './connection.ts'
import type { ConnectionFacts } from './connector.ts'
import { deadline } from './deadline.ts'
import { type Exchange, judge, recordedText, retryAfterOf } from './exchange.ts'
import type { ResponseHead } from './response-reader.ts'
import { SendError } from './send-error.ts'

export type SendLimits = {
  /** Over everything: name, connection, request, response, body. */
  attemptMsMax: number
  /** How much of a response's body is kept. */
  responseKeptBytesMax: number
  /** How much of it is read before the connection is dropped and the attempt has failed. */
  responseBytesMax: number
  responseHeaderBytesMax: number
}

/** One request and what comes of it. Whatever happens first, its end is reported exactly once. */
export class Attempt implements Carried {
  /** What carries it, as soon as there is something. */
  connection: Connection | null = null
  facts: ConnectionFacts
  #limits: SendLimits
  #report: (exchange: Exchange) => void
  #begun = performance.now()
  #callOff: () => void
  #isOver = false
  #firstByteUs: number | null = null
  #head: ResponseHead | null = null
  #kept: Buffer[] = []
  #keptBytes = 0
  #bytes = 0

  constructor(facts: ConnectionFacts, limits: SendLimits, report: (exchange: Exchange) => void) {
    this.facts = facts
    this.#limits = limits
    this.#report = report
    this.#callOff = deadline(
      limits.attemptMsMax,
      (error) => this.onError(error),
      () => new SendError('timeout', `Not finished within ${limits.attemptMsMax} ms.`),
    )
  }

  get isOver(): boolean {
    return this.#isOver
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
      // A copy: what was received may be much larger, and would be kept with it.
      this.#kept.push(Buffer.from(kept))
    }
    if (this.#bytes <= this.#limits.responseBytesMax) return
    this.onError(
      new SendError('response_too_large', `The response's body is over ${this.#limits.responseBytesMax} bytes.`),
    )
  }

  onEnd(): void {
    this.#finish(judge(this.#head!), true)
  }

  /** Also by who waits no longer. */
  onError(error: SendError): void {
    this.#finish(error, false)
  }

  #elapsedUs(): number {
    return Math.round((performance.now() - this.#begun) * 1_000)
  }

  #finish(error: SendError | null, isWhole: boolean): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#callOff()
    if (!isWhole) this.connection?.close()
    const { address, dnsUs, connectUs, tlsUs } = this.facts
    this.#report({
      status: error === null ? 'succeeded' : error.code === 'interrupted' ? 'interrupted' : 'failed',
      durationUs: this.#elapsedUs(),
      firstByteUs: this.#firstByteUs,
      address,
      dnsUs,
      connectUs,
      tlsUs,
      response: this.#response(isWhole),
      error: error && { code: error.code, detail: error.message },
      gone: this.#head?.status === 410,
      retryAfterMs: error === null || this.#head === null ? null : retryAfterOf(this.#head, Date.now()),
    })
  }

  #response(isWhole: boolean): RecordedResponse | null {
    if (this.#head === null) return null
    return {
      status: this.#head.status,
      headers: recordHeaders(this.#head.headers),
      body: recordedText(this.#kept, this.#bytes > this.#keptBytes),
      complete: isWhole && this.#bytes === this.#keptBytes,
    }
  }
}
