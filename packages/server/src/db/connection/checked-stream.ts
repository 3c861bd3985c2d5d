import { connect, type Socket } from 'node:net'
import { Duplex } from 'node:stream'
import { createReplyCheck, type ReplyLimits } from './reply-check.ts'

/**
 * A connection to a server that is not trusted, for `pg`. Its parser believes what it reads: it waits for ever for the end of an error, and
 * throws where nobody can catch that. So it gets whole messages that were checked, and no more than the limits.
 */
export class CheckedStream extends Duplex {
  #socket: Socket | undefined
  readonly #check: (part: Buffer) => Buffer

  constructor(limits: ReplyLimits) {
    super({ emitClose: true })
    this.#check = createReplyCheck(limits)
  }

  connect(path: string): this {
    const socket = connect(path, () => this.emit('connect'))
    socket.on('data', (part: Buffer) => {
      try {
        const checked = this.#check(part)
        if (checked.length > 0) this.push(checked)
      } catch (error) {
        this.destroy(error as Error)
      }
    })
    socket.on('error', (error) => this.destroy(error))
    socket.on('close', () => this.destroy())
    this.#socket = socket
    return this
  }

  /** The limits keep what is not read yet small. */
  override _read(): void {}

  override _write(part: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#socket!.write(part, done)
  }

  /** The server may never close its end. */
  override _final(done: () => void): void {
    this.#socket?.destroySoon()
    done()
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#socket?.destroy()
    done(error)
  }

  /** `pg` calls these; they mean nothing for a socket of this machine, or for a connection that is never idle. */
  setNoDelay(): void {}
  setKeepAlive(): void {}
  ref(): void {}
  unref(): void {}
}
