import { connect, type Socket } from 'node:net'
import { UnsuitableDatabase } from '../errors.ts'
import type { ConnectionTarget } from './connection-url.ts'

/** PostgreSQL's own: a length of 8, and the number that asks for TLS. */
const request = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47])

/**
 * Asks the server once whether it speaks TLS. What `prefer` comes to is decided here for the whole life of the process: one
 * driver would ask for every connection, and the other does not know how to; and nobody can talk a running process out of it.
 */
export async function settleTls(target: ConnectionTarget): Promise<ConnectionTarget> {
  const { tls, ...plain } = target
  if (tls === undefined) return target
  const isOffered = await offersTls(target)
  if (isOffered) return { ...target, tls: { ...tls, mode: tls.mode === 'prefer' ? 'require' : tls.mode } }
  if (tls.mode === 'prefer') return plain
  throw new UnsuitableDatabase(
    `DATABASE_URL: the server at ${target.host}:${target.port} does not speak TLS, which sslmode=${tls.mode} asks for.`,
  )
}

async function offersTls({ host, port, connectSeconds = 10 }: ConnectionTarget): Promise<boolean> {
  const socket = connect({ host, port })
  try {
    const answer = await firstByte(socket, connectSeconds * 1_000)
    if (answer !== 'S' && answer !== 'N')
      throw lost('CONNECTION_CLOSED', 'what answers does not speak as PostgreSQL does')
    return answer === 'S'
  } finally {
    socket.destroy()
  }
}

const firstByte = (socket: Socket, msMax: number): Promise<string> =>
  new Promise((resolve, reject) => {
    const late = setTimeout(() => reject(lost('CONNECT_TIMEOUT', `no answer after ${msMax} ms`)), msMax)
    socket.once('connect', () => socket.write(request))
    socket.once('data', (bytes) => resolve(bytes.toString('latin1', 0, 1)))
    socket.once('error', reject)
    socket.once('close', () => {
      clearTimeout(late)
      reject(lost('CONNECTION_CLOSED', 'the connection was closed'))
    })
  })

/** With a code by which it is known as PostgreSQL that cannot be reached. */
const lost = (code: string, why: string): Error => Object.assign(new Error(why), { code })
