import type { TLSSocket } from 'node:tls'
import type { IdleConnection } from './idle-connections.ts'
import { headerValues, type ResponseHead, type ResponseListener, ResponseReader } from './response-reader.ts'
import { SendError, sendErrorOf } from './send-error.ts'

/** Who a connection carries a request for. It hears of one end, unless it closes the connection before. */
export type Carried = ResponseListener & { onEnd(): void; onError(error: SendError): void }

type Limits = { headerBytesMax: number; bytesMax: number }

/** HTTP/1.1 over one TLS connection, a request at a time. */
export class Connection implements IdleConnection {
  older: IdleConnection | null = null
  newer: IdleConnection | null = null
  readonly address: string | null
  #socket: TLSSocket
  #reader: ResponseReader
  #bytesMax: number
  #onClose: (connection: Connection) => void
  #carried: Carried | null = null
  #bytes = 0
  #keptMs = 0
  #keptUntilMs = 0
  #expiry: NodeJS.Timeout | null = null
  #expiresMs = 0
  #isOpen = true

  constructor(
    socket: TLSSocket,
    address: string | null,
    { headerBytesMax, bytesMax }: Limits,
    onClose: (connection: Connection) => void,
  ) {
    this.address = address
    this.#socket = socket
    this.#reader = new ResponseReader(headerBytesMax)
    this.#bytesMax = bytesMax
    this.#onClose = onClose
    socket.on('data', (bytes: Buffer) => this.#receive(bytes))
    socket.on('end', () => this.#endWithConnection(hungUp()))
    socket.on('error', (error) => this.#break(error))
    socket.on('close', () => {
      this.#fail(hungUp())
      // Not sooner: it may have been closed in the middle of a read.
      this.#reader.free()
    })
  }

  get isOpen(): boolean {
    return this.#isOpen && !this.#socket.destroyed && performance.now() < this.#keptUntilMs
  }

  /** A receiver that answers before it has read everything would take the rest of one request for the next. */
  get isAllSent(): boolean {
    return this.#socket.writableLength === 0
  }

  carry(request: Buffer, carried: Carried): void {
    this.#carried = carried
    this.#bytes = 0
    this.#keptMs = 0
    this.#reader.expect(this)
    this.#socket.write(request)
  }

  close(): void {
    if (!this.#isOpen) return
    this.#isOpen = false
    this.#carried = null
    if (this.#expiry !== null) clearTimeout(this.#expiry)
    this.#socket.destroy()
    this.#onClose(this)
  }

  get isOver(): boolean {
    return this.#carried === null || this.#carried.isOver
  }

  onHead(head: ResponseHead): void {
    this.#keptMs = keptMs(head)
    this.#carried!.onHead(head)
  }

  onBody(bytes: Buffer): void {
    this.#carried!.onBody(bytes)
  }

  #receive(bytes: Buffer): void {
    // Nothing was asked: were it taken for the answer to the next request, all answers from there on would be another's.
    if (this.#carried === null) {
      this.close()
      return
    }
    this.#bytes += bytes.length
    let isEnded: boolean
    try {
      // Not all that a receiver sends is a body: interim responses, chunk extensions and the like have no end either.
      if (this.#bytes > this.#bytesMax) throw tooMuch(this.#bytesMax)
      isEnded = this.#reader.read(bytes)
    } catch (error) {
      this.#fail(error as SendError)
      return
    }
    if (isEnded) this.#end()
  }

  #end(): void {
    const carried = this.#carried
    if (carried === null) return
    this.#carried = null
    const isStuck = this.#socket.writableLength > stuckBytes
    if (this.#reader.keepsAlive && this.#keptMs > 0 && !isStuck) this.#keep()
    else this.close()
    carried.onEnd()
  }

  #fail(error: SendError): void {
    const carried = this.#carried
    this.close()
    carried?.onError(error)
  }

  #break(error: Error & { code?: string }): void {
    const failure = sendErrorOf(error, 'exchange')
    // Whoever closes without having read all that we sent resets.
    if (error.code === 'ECONNRESET') this.#endWithConnection(failure)
    else this.#fail(failure)
  }

  /** Where nothing else says how long an answer is, it ends with the connection. */
  #endWithConnection(otherwise: SendError): void {
    let isEnded = false
    try {
      isEnded = this.#carried !== null && this.#reader.finish()
    } catch {
      // It said how long it is, and was not.
    }
    this.#keptMs = 0
    if (isEnded) this.#end()
    else this.#fail(otherwise)
  }

  /** One timer, which is set anew when it ends: one for each request would cost more than it does. */
  #keep(): void {
    this.#keptUntilMs = performance.now() + this.#keptMs
    if (this.#expiry === null || this.#keptUntilMs < this.#expiresMs) this.#expireAt(this.#keptUntilMs)
  }

  #expireAt(ms: number): void {
    if (this.#expiry !== null) clearTimeout(this.#expiry)
    this.#expiresMs = ms
    this.#expiry = setTimeout(() => this.#expire(), ms - performance.now()).unref()
  }

  #expire(): void {
    this.#expiry = null
    if (this.#carried !== null) return
    if (this.#keptUntilMs <= performance.now()) this.close()
    else this.#expireAt(this.#keptUntilMs)
  }
}

/** Whoever has answered and left so much unread will not read it. Less may have left, and just not be known to have. */
const stuckBytes = 65_536

/** How long a connection is kept where the receiver does not say, and how much sooner than it says: the way to us takes time. */
const keptMsUsually = 4_000
const soonerMs = 2_000
const keptMsMax = 600_000

/** After this answer; 0 if it can carry no more. */
function keptMs(head: ResponseHead): number {
  // These have no body, whatever they say of it. If there is one all the same, it would be taken for the next answer.
  if ((head.status === 204 || head.status === 304) && announcesBody(head)) return 0
  const hint = /(?:^|,)[\t ]*timeout=(\d+)/i.exec(headerValues(head, 'keep-alive').join(','))
  return hint === null ? keptMsUsually : Math.min(Number(hint[1]) * 1_000 - soonerMs, keptMsMax)
}

const announcesBody = (head: ResponseHead): boolean =>
  headerValues(head, 'transfer-encoding').length > 0 ||
  headerValues(head, 'content-length').some((length) => Number(length) > 0)

const hungUp = () =>
  new SendError('connection_closed', 'The receiver closed the connection before the end of its answer.')
const tooMuch = (max: number) => new SendError('response_too_large', `The response is over ${max} bytes in all.`)
