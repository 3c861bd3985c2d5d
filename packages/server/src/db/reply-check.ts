import { connect, type Socket } from 'node:net'
import { Duplex } from 'node:stream'

/** What one connection may answer in all. */
export type ReplyLimits = { bytesMax: number; rowsMax: number }

const headBytes = 5
const columnsMax = 1_664
/** Texts of errors go to the log. */
const errorBytesMax = 16 * 1024

/** Takes what a server sends, and returns the messages that are complete and well-formed. Throws when it is anything else. */
function createReplyCheck({ bytesMax, rowsMax }: ReplyLimits): (part: Buffer) => Buffer {
  let parts: Buffer[] = []
  let waiting = 0
  let needed = headBytes
  let bytes = 0
  let rows = 0

  return (part) => {
    bytes += part.length
    if (bytes > bytesMax) throw tooMuch()
    parts.push(part)
    waiting += part.length
    // Joined once per message: byte by byte it would be copied over and over.
    if (waiting < needed) return Buffer.alloc(0)
    const all = Buffer.concat(parts)
    let end = 0
    needed = headBytes
    while (all.length - end >= headBytes) {
      const total = 1 + all.readUInt32BE(end + 1)
      if (total < headBytes) throw malformed()
      if (total > bytesMax) throw tooMuch()
      if (end + total > all.length) {
        needed = total
        break
      }
      const code = String.fromCharCode(all[end]!)
      checkMessage(code, all.subarray(end + headBytes, end + total))
      if (code === 'D' && ++rows > rowsMax) throw tooMuch()
      end += total
    }
    parts = [all.subarray(end)]
    waiting = all.length - end
    return all.subarray(0, end)
  }
}

const tooMuch = () => new Error('The server of the database sends too much.')
const malformed = () => new Error('The server of the database does not answer as PostgreSQL does.')

/** The form of each message that a statement can be answered with (protocol 3.0). Others, such as COPY or a request for a password, never are. */
function checkMessage(code: string, body: Buffer): void {
  let at = 0
  const skip = (count: number): void => {
    at += count
    if (count < 0 || at > body.length) throw malformed()
  }
  const int16 = (): number => {
    skip(2)
    return body.readInt16BE(at - 2)
  }
  const int32 = (): number => {
    skip(4)
    return body.readInt32BE(at - 4)
  }
  const text = (): void => {
    const end = body.indexOf(0, at)
    skip(end < 0 ? -1 : end + 1 - at)
  }
  const each = (check: () => void): void => {
    const count = int16()
    if (count < 0 || count > columnsMax) throw malformed()
    for (let i = 0; i < count; i++) check()
  }
  const value = (): void => {
    const length = int32()
    if (length !== -1) skip(length)
  }

  switch (code) {
    case '1':
    case '2':
    case '3':
    case 'n':
    case 's':
    case 'I':
      break
    case 'R':
      // The socket's own rights have to be enough: a password is never sent here.
      if (int32() !== 0) throw malformed()
      break
    case 'K':
      skip(8)
      break
    case 'S':
      text()
      text()
      break
    case 'Z':
      skip(1)
      break
    case 'C':
      text()
      break
    case 'E':
    case 'N':
      if (body.length > errorBytesMax) throw malformed()
      for (skip(1); body[at - 1] !== 0; skip(1)) text()
      break
    case 'T':
      each(() => {
        text()
        skip(18)
      })
      break
    case 't':
      each(() => skip(4))
      break
    case 'D':
      each(value)
      break
    default:
      throw malformed()
  }
  if (at !== body.length) throw malformed()
}

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
