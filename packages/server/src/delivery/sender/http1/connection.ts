import type { TLSSocket } from 'node:tls'
import { classifyError, SendError } from '../../send-errors.ts'
import { headerValues, type ResponseHead, type ResponseListener, ResponseParser } from './response-parser.ts'

/** Gets either `onEnd` or `onError`, unless it closes the connection before. */
export type ConnectionListener = ResponseListener & { onEnd(): void; onError(error: SendError): void }

type Limits = { headerBytesMax: number; bytesMax: number }

/** HTTP/1.1 over one TLS connection, one request at a time. */
export class Connection {
  readonly address: string | null
  #socket: TLSSocket
  #parser: ResponseParser
  #bytesMax: number
  #onClose: (connection: Connection) => void
  #listener: ConnectionListener | null = null
  #bytes = 0
  #keepAliveMs = 0
  #reusableUntilMs = 0
  #expiry: NodeJS.Timeout | null = null
  #expiresAtMs = 0
  #isClosed = false

  constructor(
    socket: TLSSocket,
    address: string | null,
    { headerBytesMax, bytesMax }: Limits,
    onClose: (connection: Connection) => void,
  ) {
    this.address = address
    this.#socket = socket
    this.#parser = new ResponseParser(headerBytesMax)
    this.#bytesMax = bytesMax
    this.#onClose = onClose
    socket.on('data', (bytes: Buffer) => this.#receive(bytes))
    socket.on('end', () => this.#endOfStream(closedEarly()))
    socket.on('error', (error) => this.#socketError(error))
    socket.on('close', () => {
      this.#fail(closedEarly())
      // Not sooner: it may have been closed in the middle of a read.
      this.#parser.free()
    })
  }

  get isClosed(): boolean {
    return this.#isClosed || this.#socket.destroyed
  }

  /** It has carried a request, and the receiver still keeps it open as far as we know. */
  get isReusable(): boolean {
    return !this.isClosed && performance.now() < this.#reusableUntilMs
  }

  /** A receiver that answers before it has read the whole request would read the rest as the next request. */
  get isDrained(): boolean {
    return this.#socket.writableLength === 0
  }

  send(request: Buffer, listener: ConnectionListener): void {
    this.#listener = listener
    this.#bytes = 0
    this.#keepAliveMs = 0
    this.#parser.expect(this)
    this.#socket.write(request)
  }

  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#listener = null
    if (this.#expiry !== null) clearTimeout(this.#expiry)
    this.#socket.destroy()
    this.#onClose(this)
  }

  get isDone(): boolean {
    return this.#listener === null || this.#listener.isDone
  }

  onHead(head: ResponseHead): void {
    this.#keepAliveMs = keepAliveMs(head)
    this.#listener!.onHead(head)
  }

  onBody(bytes: Buffer): void {
    this.#listener!.onBody(bytes)
  }

  #receive(bytes: Buffer): void {
    // Unsolicited bytes would be taken for the response to the next request.
    if (this.#listener === null) {
      this.close()
      return
    }
    this.#bytes += bytes.length
    let isComplete: boolean
    try {
      // Interim responses and chunk extensions count too: they are not part of a body and have no other limit.
      if (this.#bytes > this.#bytesMax) throw tooLarge(this.#bytesMax)
      isComplete = this.#parser.read(bytes)
    } catch (error) {
      this.#fail(error as SendError)
      return
    }
    if (isComplete) this.#complete()
  }

  #complete(): void {
    const listener = this.#listener
    if (listener === null) return
    this.#listener = null
    const isStuck = this.#socket.writableLength > stuckBytes
    if (this.#parser.keepsAlive && this.#keepAliveMs > 0 && !isStuck) this.#keepAlive()
    else this.close()
    listener.onEnd()
  }

  #fail(error: SendError): void {
    const listener = this.#listener
    this.close()
    listener?.onError(error)
  }

  #socketError(error: Error & { code?: string }): void {
    const failure = classifyError(error, 'exchange')
    // A receiver that closes without having read the whole request causes a reset.
    if (error.code === 'ECONNRESET') this.#endOfStream(failure)
    else this.#fail(failure)
  }

  /** A response without a stated length ends here; any other is cut off. */
  #endOfStream(cutOff: SendError): void {
    let isComplete = false
    try {
      isComplete = this.#listener !== null && this.#parser.finish()
    } catch {
      // It stated a length and is shorter.
    }
    this.#keepAliveMs = 0
    if (isComplete) this.#complete()
    else this.#fail(cutOff)
  }

  /** The timer is only moved when it fires or would fire too late: setting one for each request costs more. */
  #keepAlive(): void {
    this.#reusableUntilMs = performance.now() + this.#keepAliveMs
    if (this.#expiry === null || this.#reusableUntilMs < this.#expiresAtMs) this.#expireAt(this.#reusableUntilMs)
  }

  #expireAt(ms: number): void {
    if (this.#expiry !== null) clearTimeout(this.#expiry)
    this.#expiresAtMs = ms
    this.#expiry = setTimeout(() => this.#expire(), ms - performance.now()).unref()
  }

  #expire(): void {
    this.#expiry = null
    if (this.#listener !== null) return
    if (this.#reusableUntilMs <= performance.now()) this.close()
    else this.#expireAt(this.#reusableUntilMs)
  }
}

/** A receiver that answered and left this much unread will not read it. Less may be sent already and not reported yet. */
const stuckBytes = 65_536

/** Used when the receiver does not state a time. We close two seconds before the stated one, because packets take time. */
const keepAliveMsDefault = 4_000
const closeEarlierMs = 2_000
const keepAliveMsMax = 600_000

/** How long the connection may be reused after this response; 0 or less for not at all. */
function keepAliveMs(head: ResponseHead): number {
  // These have no body by definition. Bytes of one would be read as the next response.
  if ((head.status === 204 || head.status === 304) && announcesBody(head)) return 0
  const timeout = /(?:^|,)[\t ]*timeout=(\d+)/i.exec(headerValues(head, 'keep-alive').join(','))
  return timeout === null ? keepAliveMsDefault : Math.min(Number(timeout[1]) * 1_000 - closeEarlierMs, keepAliveMsMax)
}

const announcesBody = (head: ResponseHead): boolean =>
  headerValues(head, 'transfer-encoding').length > 0 ||
  headerValues(head, 'content-length').some((length) => Number(length) > 0)

const closedEarly = () =>
  new SendError('connection_closed', 'The receiver closed the connection before the end of its answer.')
const tooLarge = (max: number) => new SendError('response_too_large', `The response is over ${max} bytes in all.`)
