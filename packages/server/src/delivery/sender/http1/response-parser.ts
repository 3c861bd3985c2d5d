import { createRequire } from 'node:module'
import { SendError } from '../../send-errors.ts'

/** Name, value, name, value. */
export type RawHeaders = string[]

/** Names of headers are in lower case. */
export type ResponseHead = { status: number; headers: RawHeaders }

export const headerValues = ({ headers }: Pick<ResponseHead, 'headers'>, name: string): string[] =>
  headers.filter((_, i) => i % 2 === 1 && headers[i - 1] === name)

export type ResponseListener = {
  /** True from some time on: then parsing stops. */
  readonly isDone: boolean
  onHead(head: ResponseHead): void
  /** A view of the received bytes. */
  onBody(bytes: Buffer): void
}

/** Reads the responses of one connection, one after the other. */
export class ResponseParser {
  #parser = llhttp.llhttp_alloc(responseType)
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

  expect(listener: ResponseListener): void {
    this.#listener = listener
    this.#isComplete = false
    this.#keepsAlive = false
  }

  /** Returns whether the response is complete. Throws a SendError when it is malformed or too large. */
  read(bytes: Buffer): boolean {
    let errno = 0
    for (let at = 0; at < bytes.length && errno === 0; at += inputBytes) {
      current = bytes.length > inputBytes ? bytes.subarray(at, at + inputBytes) : bytes
      // Memory that has grown is a new buffer.
      if (input.buffer !== llhttp.memory.buffer) input = Buffer.from(llhttp.memory.buffer, inputAt, inputBytes)
      input.set(current)
      parsing = this
      errno = llhttp.llhttp_execute(this.#parser, inputAt, current.length)
    }
    parsing = null
    current = input
    this.#check(errno)
    return this.#isComplete
  }

  /** The connection has ended: a response without a stated length ends with it. */
  finish(): boolean {
    parsing = this
    const errno = llhttp.llhttp_finish(this.#parser)
    parsing = null
    this.#check(errno)
    return this.#isComplete
  }

  /** Not during a read. */
  free(): void {
    if (this.#parser !== 0) llhttp.llhttp_free(this.#parser)
    this.#parser = 0
  }

  #check(errno: number): void {
    if (errno === 0) return
    this.#keepsAlive = false
    if (!this.#isComplete && !this.#listener?.isDone) throw this.#error ?? malformed(this.#describe(errno))
  }

  #describe(errno: number): string {
    const texts = [llhttp.llhttp_errno_name(errno), llhttp.llhttp_get_error_reason(this.#parser)].map(cString)
    return texts.filter(Boolean).join(': ')
  }

  #reject(error: SendError): number {
    this.#error = error
    return stop
  }

  /* llhttp calls these while it parses. Names and values may come in pieces. */

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
    this.#keepsAlive = llhttp.llhttp_should_keep_alive(this.#parser) === 1
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

/*
 * llhttp, the HTTP parser of Node, in the WebAssembly build that undici ships. This is the one private file of a package that we
 * import, so package.json pins undici to an exact version.
 */
const wasm = createRequire(import.meta.url)('undici/lib/llhttp/llhttp-wasm.js') as Buffer

/** What llhttp exports. Numbers called `parser` and `at` are addresses in its memory. */
type Exports = {
  memory: { buffer: ArrayBuffer }
  malloc(bytes: number): number
  llhttp_alloc(type: number): number
  llhttp_free(parser: number): void
  llhttp_execute(parser: number, at: number, length: number): number
  llhttp_finish(parser: number): number
  llhttp_should_keep_alive(parser: number): number
  llhttp_errno_name(errno: number): number
  llhttp_get_error_reason(parser: number): number
}

/** TypeScript declares it for browsers only. */
declare const WebAssembly: {
  Module: new (bytes: Buffer) => object
  Instance: new (module: object, imports: object) => { exports: unknown }
}

/** What a callback returns. `noBody` is for a complete header: no body follows, whatever it says. */
const proceed = 0
const noBody = 1
const stop = -1

const llhttp = new WebAssembly.Instance(new WebAssembly.Module(wasm), {
  env: {
    wasm_on_url: () => proceed,
    wasm_on_status: () => proceed,
    wasm_on_message_begin: () => parsing!.onMessageBegin(),
    wasm_on_header_field: (_: number, at: number, length: number) => parsing!.onHeaderName(textOf(at, length)),
    wasm_on_header_value: (_: number, at: number, length: number) => parsing!.onHeaderValue(textOf(at, length)),
    wasm_on_headers_complete: (_: number, status: number) => parsing!.onHeadersComplete(status),
    wasm_on_body: (_: number, at: number, length: number) => parsing!.onBody(bytesOf(at, length)),
    wasm_on_message_complete: () => parsing!.onMessageComplete(),
  },
}).exports as Exports

/** The input buffer in llhttp's memory. All parsers share it: parsing is synchronous. */
const inputBytes = 65_536
const inputAt = llhttp.malloc(inputBytes)
let input = Buffer.alloc(0)

/** The parser that runs now, and what it parses. */
let parsing: ResponseParser | null = null
let current: Buffer = input

const textOf = (at: number, length: number): string => current.toString('latin1', at - inputAt, at - inputAt + length)
const bytesOf = (at: number, length: number): Buffer => current.subarray(at - inputAt, at - inputAt + length)

const responseType = 2

function cString(at: number): string {
  if (at === 0) return ''
  const bytes = Buffer.from(llhttp.memory.buffer, at)
  return bytes.toString('latin1', 0, bytes.indexOf(0))
}
