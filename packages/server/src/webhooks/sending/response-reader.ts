import { createRequire } from 'node:module'
import type { FlatHeaders } from './request.ts'
import { SendError } from './send-error.ts'

/*
 * Reads HTTP/1.1 responses with llhttp, as Node and undici do. It is undici's build of it in WebAssembly, without the client that
 * is around it there: see ARCHITECTURE.md for what that one costs.
 */

/** What llhttp offers. `parser` and `at` are places in its memory. What reads answers 0 if all is well. */
type Llhttp = {
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

/** TypeScript knows it in browsers only. */
declare const WebAssembly: {
  Module: new (bytes: Buffer) => object
  Instance: new (module: object, imports: object) => { exports: unknown }
}

/** What it is told in return. */
const goOn = 0
const stop = -1
/** Of a header that is complete: no body follows, whatever it says. */
const noBody = 1

const ofResponses = 2

const llhttp = new WebAssembly.Instance(
  new WebAssembly.Module(createRequire(import.meta.url)('undici/lib/llhttp/llhttp-wasm.js')),
  {
    env: {
      wasm_on_url: () => goOn,
      wasm_on_status: () => goOn,
      wasm_on_message_begin: () => reader!.begin(),
      wasm_on_header_field: (_: number, at: number, length: number) => reader!.addName(textOf(at, length)),
      wasm_on_header_value: (_: number, at: number, length: number) => reader!.addValue(textOf(at, length)),
      wasm_on_headers_complete: (_: number, status: number) => reader!.endHeaders(status),
      wasm_on_body: (_: number, at: number, length: number) => reader!.addBody(bytesOf(at, length)),
      wasm_on_message_complete: () => reader!.end(),
    },
  },
).exports as Llhttp

/** Where it finds what it is to read. All readers share it: a read is over before the next begins. */
const sharedBytes = 65_536
const sharedAt = llhttp.malloc(sharedBytes)
let shared = Buffer.alloc(0)

/** Whose turn it is, and what lies there. */
let reader: ResponseReader | null = null
let given: Buffer = shared

const textOf = (at: number, length: number): string => given.toString('latin1', at - sharedAt, at - sharedAt + length)
const bytesOf = (at: number, length: number): Buffer => given.subarray(at - sharedAt, at - sharedAt + length)

export type ResponseHead = {
  status: number
  /** Names in lower case. */
  headers: FlatHeaders
}

export const headerValues = ({ headers }: ResponseHead, name: string): string[] =>
  headers.filter((_, i) => i % 2 === 1 && headers[i - 1] === name)

/** Who reads may have had enough at any moment: `isOver` says so, and it hears no more. */
export type ResponseListener = {
  readonly isOver: boolean
  onHead(head: ResponseHead): void
  /** A window on what was received. */
  onBody(bytes: Buffer): void
}

/** Of one connection, one response after the other. */
export class ResponseReader {
  #parser = llhttp.llhttp_alloc(ofResponses)
  #listener: ResponseListener | null = null
  #isEnded = false
  #keepsAlive = false
  #fault: SendError | null = null
  #status = 0
  #headers: FlatHeaders = []
  #headerBytes = 0
  #headerBytesMax: number

  constructor(headerBytesMax: number) {
    this.#headerBytesMax = headerBytesMax
  }

  /** The connection may carry another request after this response. */
  get keepsAlive(): boolean {
    return this.#keepsAlive
  }

  /** From here on a response may come. */
  expect(listener: ResponseListener): void {
    this.#listener = listener
    this.#isEnded = false
    this.#keepsAlive = false
  }

  /** Says whether the response is at its end. Throws what is wrong with it. */
  read(bytes: Buffer): boolean {
    for (let at = 0; at < bytes.length; at += sharedBytes) {
      given = bytes.length > sharedBytes ? bytes.subarray(at, at + sharedBytes) : bytes
      // Memory that has grown is another.
      if (shared.buffer !== llhttp.memory.buffer) shared = Buffer.from(llhttp.memory.buffer, sharedAt, sharedBytes)
      shared.set(given)
      reader = this
      this.#judge(llhttp.llhttp_execute(this.#parser, sharedAt, given.length))
    }
    return this.#isEnded
  }

  /** Nothing more will come: there are responses that end with that. */
  finish(): boolean {
    reader = this
    this.#judge(llhttp.llhttp_finish(this.#parser))
    return this.#isEnded
  }

  /** Not in the middle of a read. */
  free(): void {
    if (this.#parser !== 0) llhttp.llhttp_free(this.#parser)
    this.#parser = 0
  }

  #judge(errno: number): void {
    reader = null
    given = shared
    if (errno === 0) return
    this.#keepsAlive = false
    if (!this.#isEnded && !this.#listener?.isOver) throw this.#fault ?? malformed(this.#parser, errno)
  }

  #refuse(fault: SendError): number {
    this.#fault = fault
    return stop
  }

  /* What follows is called by llhttp. Names and values may come in pieces. */

  begin(): number {
    this.#status = 0
    this.#headers = []
    this.#headerBytes = 0
    return this.#listener === null || this.#isEnded ? this.#refuse(notAsked()) : goOn
  }

  addName(piece: string): number {
    if (this.#headers.length % 2 === 0) this.#headers.push(piece)
    else this.#headers[this.#headers.length - 1] += piece
    return this.#count(piece)
  }

  addValue(piece: string): number {
    if (this.#headers.length % 2 === 1) this.#headers.push(piece)
    else this.#headers[this.#headers.length - 1] += piece
    return this.#count(piece)
  }

  #count({ length }: string): number {
    this.#headerBytes += length
    if (this.#headerBytes < this.#headerBytesMax) return goOn
    return this.#refuse(tooManyHeaders(this.#headerBytesMax))
  }

  endHeaders(status: number): number {
    if (status === 101) return this.#refuse(otherProtocol())
    if (status < 100) return this.#refuse(notHttp())
    this.#status = status
    // 1xx: a word on the way, not the answer.
    if (status < 200) return noBody
    const headers = this.#headers
    for (let i = 0; i < headers.length; i += 2) headers[i] = headers[i]!.toLowerCase()
    // What comes behind a body is counted, and not kept.
    this.#headers = []
    this.#listener!.onHead({ status, headers })
    return this.#listener!.isOver ? stop : goOn
  }

  addBody(bytes: Buffer): number {
    this.#listener!.onBody(bytes)
    return this.#listener!.isOver ? stop : goOn
  }

  end(): number {
    if (this.#status < 200) return goOn
    this.#isEnded = true
    // Now, and not with the header: what comes behind the body may have a say in it.
    this.#keepsAlive = llhttp.llhttp_should_keep_alive(this.#parser) === 1
    return goOn
  }
}

function malformed(parser: number, errno: number): SendError {
  const what = [llhttp.llhttp_errno_name(errno), llhttp.llhttp_get_error_reason(parser)].map(wordsAt)
  return new SendError('response_malformed', `The response is not HTTP/1.1 (${what.filter(Boolean).join(': ')}).`)
}

function wordsAt(at: number): string {
  if (at === 0) return ''
  const bytes = Buffer.from(llhttp.memory.buffer, at)
  return bytes.toString('latin1', 0, bytes.indexOf(0))
}

const notHttp = () => new SendError('response_malformed', 'The response is not HTTP/1.1.')
const otherProtocol = () =>
  new SendError('response_malformed', 'The receiver changed to another protocol, which was not asked for.')
const notAsked = () => new SendError('response_malformed', 'The receiver sent something that was not asked for.')
const tooManyHeaders = (max: number) =>
  new SendError('response_headers_too_large', `The header of the response is over ${max} bytes.`)
