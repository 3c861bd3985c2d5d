import { connect as open } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect, type Database, isOutOfConnections } from '../../db/database.ts'
import { ownerRole } from '../../domain/database.ts'
import { isScramVerifier } from '../../domain/scram.ts'
import { StepFailure } from '../driver.ts'
import type { Control } from './instance.ts'

/** Far more than a checkpoint takes on a busy disk, and little enough for whoever waits for the same worker. */
const statementMsMax = 5 * 60_000
const silentMsMore = 30_000
/** Several times as long as strangers may have a connection without a password. */
const connectMsMax = 60_000

export type ControlOptions = { name: string; signal: AbortSignal; statementMsMax?: number | undefined }

type ControlSession = { sql: Database; close(): Promise<void> }

/**
 * One session of the superuser's, to be closed by whoever opened it. A customer's session may hold up what it waits for, so
 * it waits for nothing for ever: it ends with the signal; a statement that takes too long is cancelled; and where even
 * that does not help, the connection is given up.
 */
export async function openControl(control: Control, options: ControlOptions): Promise<ControlSession> {
  const { name, signal } = options
  signal.throwIfAborted()
  const ms = options.statementMsMax ?? statementMsMax
  const sql = connect(control, { name, connectionsMax: 1, statementMsMax: ms, silentMsMax: ms + silentMsMore })
  const cut = () => void sql.end({ timeout: 0 })
  signal.addEventListener('abort', cut, { once: true })
  const close = async () => {
    signal.removeEventListener('abort', cut)
    await sql.end({ timeout: 5 })
  }
  try {
    await untilConnected(sql, signal)
  } catch (error) {
    await close()
    signal.throwIfAborted()
    throw error
  }
  return { sql, close }
}

/** Clients, and strangers without a password, may have every connection at the moment: not all of them will for long. */
async function untilConnected(sql: Database, signal: AbortSignal): Promise<void> {
  const deadline = Date.now() + connectMsMax
  for (;;) {
    try {
      await sql`select 1`
      return
    } catch (error) {
      if (!isOutOfConnections(error)) throw error
      if (Date.now() > deadline) throw new StepFailure('All connections of the database are taken.', { cause: error })
      await sleep(100, undefined, { signal })
    }
  }
}

/** The verifier goes into the text of the statement, where no parameter may stand; so its shape is checked first. */
export async function setOwnerPassword(control: Control, passwordVerifier: string, signal: AbortSignal): Promise<void> {
  if (!isScramVerifier(passwordVerifier)) throw new Error('not a SCRAM verifier')
  const { sql, close } = await openControl(control, { name: 'keyhook platform', signal })
  try {
    await sql.unsafe(`alter role ${ownerRole} login password '${passwordVerifier}'`)
  } catch (error) {
    signal.throwIfAborted()
    throw error
  } finally {
    await close()
  }
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
