import type { ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { chown, mkdtemp, readdir, readFile, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { type ConnectionTarget, connect, type Database } from '../../../src/db/database.ts'
import { accountFor } from '../../../src/postgres/account.ts'
import { findPostgres } from '../../../src/postgres/binaries.ts'
import { database, initialise, superuser } from '../../../src/postgres/cluster.ts'
import { port } from '../../../src/postgres/lock-file.ts'
import { serverArguments } from '../../../src/postgres/postmaster.ts'
import { runTool, startProgram } from '../../../src/postgres/start-program.ts'
import { bridgeTo } from '../../kit/processes.ts'
import { until } from '../../kit/until.ts'

export type Server = {
  target: ConnectionTarget
  ask<T>(work: (db: Database) => Promise<T>): Promise<T>
  start(): Promise<void>
  /** A signal to the server and all its processes, as if the machine had stopped. */
  signal(name: NodeJS.Signals): Promise<void>
  /** Waits for the end. */
  stop(name: 'SIGINT' | 'SIGKILL'): Promise<void>
}

/**
 * A primary and a standby that receives its log, both from the PostgreSQL of npm, and one address for Keyhook. Without
 * `synchronous`, a commit does not wait for the standby.
 */
export async function startReplicatedPostgres({ synchronous = true } = {}) {
  const folder = await realpath(await mkdtemp(join(tmpdir(), 'keyhook-test-')))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const account = await accountFor(undefined)
  if (account) await chown(folder, account.uid, account.gid)
  const binaries = await (await findPostgres(null))(folder, account)
  const password = randomBytes(16).toString('hex')

  const server = (name: string, settings: Record<string, string>): Server & { cluster: string } => {
    const cluster = join(folder, name)
    // No fsync: the machine does not crash, only processes do.
    const all = { fsync: 'off', shared_buffers: '64MB', cluster_name: name, ...settings }
    const target = { host: cluster, port, user: superuser, password, database }
    let child: ChildProcess | undefined
    const ask = <T>(work: (db: Database) => Promise<T>) => asking(target, work)
    const processes = async () => (child === undefined || hasEnded(child) ? [] : await familyOf(child.pid!))
    const signal = async (sent: NodeJS.Signals) => {
      for (const pid of await processes()) sendSignal(pid, sent)
    }
    const stop = async (sent: 'SIGINT' | 'SIGKILL') => {
      if (child === undefined || hasEnded(child)) return
      const ended = once(child, 'exit')
      if (sent === 'SIGKILL') await signal(sent)
      else child.kill(sent)
      await ended
    }
    onTestFinished(() => stop('SIGKILL'))
    return {
      cluster,
      target,
      ask,
      signal,
      stop,
      async start() {
        child = startProgram(
          binaries.postgres,
          serverArguments(cluster, cluster, all),
          { account },
          { stdio: 'ignore' },
        )
        await until(() => ask((db) => db`select 1`).catch(() => false))
      },
    }
  }

  const primary = server('primary', { synchronous_standby_names: synchronous ? 'standby' : '' })
  const conninfo = `host='${primary.cluster}' port=${port} user=${superuser} password=${password} application_name=standby`
  const standby = server('standby', { primary_conninfo: conninfo })
  const location = { path: primary.cluster, link: undefined, initialised: false }
  await initialise(location, { binaries, account, password, sync: false })
  // Copied before the first start, because the packages of npm have no pg_basebackup.
  await runTool('cp', ['-a', primary.cluster, standby.cluster], { account })
  await runTool('touch', [join(standby.cluster, 'standby.signal')], { account })
  await primary.start()
  await standby.start()
  const wanted = synchronous ? 'sync' : 'async'
  await until(async () => {
    const [row] = await primary.ask(
      (db) => db<{ sync_state: string }[]>`select sync_state from pg_stat_replication where state = 'streaming'`,
    )
    return row?.sync_state === wanted
  })

  const address = { ...primary.target }
  const bridge = await bridgeTo(address)
  return {
    url: bridge.url,
    primary,
    standby,
    /** Resolves when the standby takes writes. */
    promote: () => standby.ask((db) => db`select pg_promote(true, 60)`),
    /** From now on the address is the standby's. Connections to the old primary are closed, or its answers would be used again. */
    async moveAddress(): Promise<void> {
      await bridge.cut()
      Object.assign(address, standby.target)
      await bridge.reopen()
    },
  }
}

async function asking<T>(target: ConnectionTarget, work: (db: Database) => Promise<T>): Promise<T> {
  const db = connect({ ...target, connectSeconds: 5 }, { name: 'test', connectionsMax: 1 })
  try {
    return await work(db)
  } finally {
    await db.end({ timeout: 5 })
  }
}

const hasEnded = (child: ChildProcess): boolean => child.exitCode !== null || child.signalCode !== null

/** A process and its children, itself first: a postmaster that is alive would replace the children. */
export async function familyOf(pid: number): Promise<number[]> {
  const names = (await readdir('/proc').catch(() => [])).filter((name) => /^\d+$/.test(name))
  const children = await Promise.all(
    names.map(async (name) => {
      const status = await readFile(`/proc/${name}/status`, 'utf8').catch(() => '')
      return Number(/^PPid:\s+(\d+)/m.exec(status)?.[1]) === pid ? [Number(name)] : []
    }),
  )
  return [pid, ...children.flat()]
}

export function sendSignal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch {
    // It has ended already.
  }
}
