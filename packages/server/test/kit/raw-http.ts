import { connect, type Socket } from 'node:net'

export type RawReply = { status: number; headers: Record<string, string>; body: string; text: string }

/** Bytes on a socket, exactly as given: for everything that a well-behaved client refuses to send. */
export async function sendRaw(
  url: string,
  bytes: string | Uint8Array,
  options: { halfClose?: boolean; waitMsMax?: number } = {},
): Promise<RawReply> {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  let received = ''
  socket.setEncoding('latin1')
  socket.write(bytes)
  if (options.halfClose) socket.end()
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, options.waitMsMax ?? 5_000)
    const finish = () => {
      clearTimeout(timer)
      resolve()
    }
    socket.on('data', (chunk) => {
      received += chunk
      if (isWhole(received)) finish()
    })
    socket.on('close', finish)
    // A server may reset a connection whose body it refused; what it had sent by then still counts.
    socket.on('error', finish)
  })
  socket.destroy()
  return parse(received)
}

/** A socket that stays open, and everything that arrived on it. */
export function openRaw(url: string): { socket: Socket; received(): string; ended: Promise<void> } {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  let text = ''
  socket.setEncoding('utf8')
  socket.on('data', (chunk) => {
    text += chunk
  })
  socket.on('error', () => {})
  const ended = new Promise<void>((resolve) => socket.on('close', () => resolve()))
  return { socket, received: () => text, ended }
}

function isWhole(text: string): boolean {
  const { headers, body, status } = parse(text)
  if (status === 0) return false
  if (headers['content-length'] !== undefined)
    return Buffer.byteLength(body, 'utf8') >= Number(headers['content-length'])
  if (headers['transfer-encoding'] !== undefined) return body.endsWith('0\r\n\r\n')
  return status === 204
}

function parse(received: string): RawReply {
  // An interim answer (100 Continue) comes before the one that counts.
  const text = received.replace(/^HTTP\/1\.1 1\d\d[^\r]*\r\n\r\n/, '')
  const end = text.indexOf('\r\n\r\n')
  if (end < 0) return { status: 0, headers: {}, body: '', text: received }
  const [first, ...lines] = text.slice(0, end).split('\r\n')
  const headers = Object.fromEntries(
    lines.map((line) => [line.slice(0, line.indexOf(':')).toLowerCase(), line.slice(line.indexOf(':') + 1).trim()]),
  )
  const body = Buffer.from(text.slice(end + 4), 'latin1').toString('utf8')
  return { status: Number(first?.split(' ')[1]), headers, body, text: received }
}
