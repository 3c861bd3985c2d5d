import { createRequire } from 'node:module'

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
export const proceed = 0
export const noBody = 1
export const stop = -1

/** Called while bytes are parsed. Names and values may come in pieces. */
export type ParserCallbacks = {
  onMessageBegin(): number
  onHeaderName(piece: string): number
  onHeaderValue(piece: string): number
  onHeadersComplete(status: number): number
  /** A view of the received bytes. */
  onBody(bytes: Buffer): number
  onMessageComplete(): number
}

const llhttp = new WebAssembly.Instance(new WebAssembly.Module(wasm), {
  env: {
    wasm_on_url: () => proceed,
    wasm_on_status: () => proceed,
    wasm_on_message_begin: () => callbacks!.onMessageBegin(),
    wasm_on_header_field: (_: number, at: number, length: number) => callbacks!.onHeaderName(textOf(at, length)),
    wasm_on_header_value: (_: number, at: number, length: number) => callbacks!.onHeaderValue(textOf(at, length)),
    wasm_on_headers_complete: (_: number, status: number) => callbacks!.onHeadersComplete(status),
    wasm_on_body: (_: number, at: number, length: number) => callbacks!.onBody(bytesOf(at, length)),
    wasm_on_message_complete: () => callbacks!.onMessageComplete(),
  },
}).exports as Exports

/** The input buffer in llhttp's memory. All parsers share it: parsing is synchronous. */
const inputBytes = 65_536
const inputAt = llhttp.malloc(inputBytes)
let input = Buffer.alloc(0)

/** Of the parser that runs now, and what it parses. */
let callbacks: ParserCallbacks | null = null
let current: Buffer = input

const textOf = (at: number, length: number): string => current.toString('latin1', at - inputAt, at - inputAt + length)
const bytesOf = (at: number, length: number): Buffer => current.subarray(at - inputAt, at - inputAt + length)

const responseType = 2

/** A parser of the responses on one connection. An `errno` other than 0 means that parsing stopped. */
export class LlhttpParser {
  #parser = llhttp.llhttp_alloc(responseType)
  #callbacks: ParserCallbacks

  constructor(callbacks: ParserCallbacks) {
    this.#callbacks = callbacks
  }

  execute(bytes: Buffer): number {
    let errno = 0
    for (let at = 0; at < bytes.length && errno === 0; at += inputBytes) {
      current = bytes.length > inputBytes ? bytes.subarray(at, at + inputBytes) : bytes
      // Memory that has grown is a new buffer.
      if (input.buffer !== llhttp.memory.buffer) input = Buffer.from(llhttp.memory.buffer, inputAt, inputBytes)
      input.set(current)
      callbacks = this.#callbacks
      errno = llhttp.llhttp_execute(this.#parser, inputAt, current.length)
    }
    callbacks = null
    current = input
    return errno
  }

  /** The connection has ended: some responses end with it. */
  finish(): number {
    callbacks = this.#callbacks
    const errno = llhttp.llhttp_finish(this.#parser)
    callbacks = null
    return errno
  }

  shouldKeepAlive(): boolean {
    return llhttp.llhttp_should_keep_alive(this.#parser) === 1
  }

  describe(errno: number): string {
    const texts = [llhttp.llhttp_errno_name(errno), llhttp.llhttp_get_error_reason(this.#parser)].map(cString)
    return texts.filter(Boolean).join(': ')
  }

  /** Not while it parses. */
  free(): void {
    if (this.#parser !== 0) llhttp.llhttp_free(this.#parser)
    this.#parser = 0
  }
}

function cString(at: number): string {
  if (at === 0) return ''
  const bytes = Buffer.from(llhttp.memory.buffer, at)
  return bytes.toString('latin1', 0, bytes.indexOf(0))
}
