import { LlhttpParser, noBody, type ParserCallbacks, proceed, stop } from './llhttp.ts'
import { SendError } from './send-error.ts'

/** Name, value, name, value. */
export type RawHeaders = string[]

/** Names of headers are in lower case. */
export type ResponseHead = { status: number; headers: RawHeaders }

export const headerValues = ({ headers }: Pick<ResponseHead, 'headers'>, name: string): string[] =>
  headers.filter((_, i) => i % 2 === 1 && headers[i - 1] === name)

export type ResponseListener = {
  /** True from any moment on: then parsing stops. */
  readonly isDone: boolean
  onHead(head: ResponseHead): void
  /** A view of the received bytes. */
  onBody(bytes: Buffer): void
}

/** Reads the responses of one connection, one after the other. */
export class ResponseParser implements ParserCallbacks {
  #llhttp = new LlhttpParser(this)
  #listener: ResponseListener | null = null
  #isComplete = false
  #keepsAlive = false
  #error: SendError | null = null
  #status = 0
  #headers: RawHeaders = []
  #headerBytes = 0
  #headerBytesMax: number

  constructor(headerBytesMax: number) {
    this.#headerBytesMax = headerBytesMax
  }

  /** The connection may carry another request after this response. */
  get keepsAlive(): boolean {
    return this.#keepsAlive
  }

  /** From now on a response may come. */
  expect(listener: ResponseListener): void {
    this.#listener = listener
    this.#isComplete = false
    this.#keepsAlive = false
  }

  /** Returns whether the response is complete. Throws a SendError when it is malformed or too large. */
  read(bytes: Buffer): boolean {
    this.#check(this.#llhttp.execute(bytes))
    return this.#isComplete
  }

  /** The connection has ended: a response without a stated length ends with it. */
  finish(): boolean {
    this.#check(this.#llhttp.finish())
    return this.#isComplete
  }

  /** Not during a read. */
  free(): void {
    this.#llhttp.free()
  }

  #check(errno: number): void {
    if (errno === 0) return
    this.#keepsAlive = false
    if (!this.#isComplete && !this.#listener?.isDone) throw this.#error ?? malformed(this.#llhttp.describe(errno))
  }

  #reject(error: SendError): number {
    this.#error = error
    return stop
  }

  onMessageBegin(): number {
    this.#status = 0
    this.#headers = []
    this.#headerBytes = 0
    return this.#listener === null || this.#isComplete ? this.#reject(unexpected()) : proceed
  }

  onHeaderName(piece: string): number {
    if (this.#headers.length % 2 === 0) this.#headers.push(piece)
    else this.#headers[this.#headers.length - 1] += piece
    return this.#count(piece)
  }

  onHeaderValue(piece: string): number {
    if (this.#headers.length % 2 === 1) this.#headers.push(piece)
    else this.#headers[this.#headers.length - 1] += piece
    return this.#count(piece)
  }

  #count({ length }: string): number {
    this.#headerBytes += length
    if (this.#headerBytes < this.#headerBytesMax) return proceed
    return this.#reject(headersTooLarge(this.#headerBytesMax))
  }

  onHeadersComplete(status: number): number {
    if (status === 101) return this.#reject(otherProtocol())
    if (status < 100) return this.#reject(notHttp())
    this.#status = status
    // 1xx is an interim response; the final one follows.
    if (status < 200) return noBody
    const headers = this.#headers
    for (let i = 0; i < headers.length; i += 2) headers[i] = headers[i]!.toLowerCase()
    // Trailers are counted, and not kept.
    this.#headers = []
    this.#listener!.onHead({ status, headers })
    return this.#listener!.isDone ? stop : proceed
  }

  onBody(bytes: Buffer): number {
    this.#listener!.onBody(bytes)
    return this.#listener!.isDone ? stop : proceed
  }

  onMessageComplete(): number {
    if (this.#status < 200) return proceed
    this.#isComplete = true
    // Only now: a trailer may close the connection.
    this.#keepsAlive = this.#llhttp.shouldKeepAlive()
    return proceed
  }
}

const malformed = (reason: string) =>
  new SendError('response_malformed', `The response is not HTTP/1.1${reason && ` (${reason})`}.`)
const notHttp = () => malformed('')
const otherProtocol = () =>
  new SendError('response_malformed', 'The receiver changed to another protocol, which was not asked for.')
const unexpected = () => new SendError('response_malformed', 'The receiver sent something that was not asked for.')
const headersTooLarge = (max: number) =>
  new SendError('response_headers_too_large', `The header of the response is over ${max} bytes.`)
