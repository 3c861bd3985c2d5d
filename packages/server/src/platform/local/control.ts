import { connect as open } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { ownerRole } from '../../domain/database.ts'
import { isScramVerifier } from '../../domain/scram.ts'
import { connect, type Database } from '../../store/database.ts'
import type { Control } from './instance.ts'

/** One session of the superuser's, for as long as `work` takes. */
async function withControl<T>(control: Control, work: (sql: Database) => Promise<T>): Promise<T> {
  const sql = connect(control, { name: 'keyhook platform', connectionsMax: 1 })
  try {
    return await work(sql)
  } finally {
    await sql.end({ timeout: 5 })
  }
}

/** The verifier goes into the text of the statement, where no parameter may stand; so its shape is checked first. */
export async function setOwnerPassword(control: Control, passwordVerifier: string): Promise<void> {
  if (!isScramVerifier(passwordVerifier)) throw new Error('not a SCRAM verifier')
  await withControl(control, (sql) => sql.unsafe(`alter role ${ownerRole} login password '${passwordVerifier}'`))
}

const acceptMsMax = 10_000
/** PostgreSQL's SSLRequest; any answer at all says that somebody accepts connections there. */
const question = Buffer.from([0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f])

/** Asks over TCP, the way a client comes, and not over our own socket. */
export async function untilAccepting(address: { host: string; port: number }, signal: AbortSignal): Promise<void> {
  const deadline = Date.now() + acceptMsMax
  const host = address.host === '0.0.0.0' ? '127.0.0.1' : address.host === '::' ? '::1' : address.host
  while (!(await answers(host, address.port))) {
    signal.throwIfAborted()
    if (Date.now() > deadline) throw new Error(`nobody accepts connections on ${address.host}:${address.port}`)
    await sleep(20)
  }
}

function answers(host: string, port: number): Promise<boolean> {
  return new Promise((done) => {
    const socket = open({ host, port }, () => socket.write(question))
    socket.setTimeout(1_000, () => socket.destroy())
    socket.once('data', () => {
      done(true)
      socket.destroy()
    })
    socket.on('error', () => {})
    socket.on('close', () => done(false))
  })
}
