import { connect, type Socket } from 'node:net'
import { UnsuitableDatabase } from '../errors.ts'
import type { ConnectionTarget } from './connection-url.ts'

/** PostgreSQL's SSLRequest message. */
const request = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47])

/**
 * Asks the server once whether it supports TLS, because `pg` does not know `prefer`. The result holds for the life of the process,
 * so that a running process cannot be downgraded.
 */
export async function settleTls(target: ConnectionTarget): Promise<ConnectionTarget> {
  const { tls, ...plain } = target
  if (tls === undefined) return target
  const isOffered = await offersTls(target)
  if (isOffered) return { ...target, tls: { ...tls, mode: tls.mode === 'prefer' ? 'require' : tls.mode } }
  if (tls.mode === 'prefer') return plain
  throw new UnsuitableDatabase(
    `DATABASE_URL: the server at ${target.host}:${target.port} does not support TLS, which sslmode=${tls.mode} requires.`,
  )
}

async function offersTls({ host, port, connectSeconds = 10 }: ConnectionTarget): Promise<boolean> {
  const socket = connect({ host, port })
  try {
    const answer = await firstByte(socket, connectSeconds * 1_000)
    if (answer !== 'S' && answer !== 'N')
      throw unavailable('ECONNRESET', 'the server did not answer as PostgreSQL does')
    return answer === 'S'
  } finally {
    socket.destroy()
  }
}

const firstByte = (socket: Socket, msMax: number): Promise<string> =>
  new Promise((resolve, reject) => {
    const late = setTimeout(() => reject(unavailable('ETIMEDOUT', `no answer after ${msMax} ms`)), msMax)
    socket.once('connect', () => socket.write(request))
    socket.once('data', (bytes) => resolve(bytes.toString('latin1', 0, 1)))
    socket.once('error', reject)
    socket.once('close', () => {
      clearTimeout(late)
      reject(unavailable('ECONNRESET', 'the connection was closed'))
    })
  })

/** With a code that `isUnavailable` knows. */
const unavailable = (code: string, why: string): Error => Object.assign(new Error(why), { code })
