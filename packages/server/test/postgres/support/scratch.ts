import { type ChildProcess, spawn } from 'node:child_process'
import { chmod, mkdtemp, readlink, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { onTestFinished } from 'vitest'
import { connect, type Database } from '../../../src/db/database.ts'
import { clustersHome } from '../../../src/postgres/binaries.ts'
import {
  type Embedded,
  type EmbeddedConnection,
  type EmbeddedOptions,
  openEmbedded,
} from '../../../src/postgres/index.ts'
import { isPostgresOn, readLockFile } from '../../../src/postgres/lock-file.ts'
import { until } from '../../kit/until.ts'

export const asRoot = process.getuid?.() === 0

/** A folder that other accounts may enter, removed after the test. */
export async function scratch(mode = 0o755): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'keyhook-test-'))
  await chmod(folder, mode)
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  return folder
}

/** Stops the server and removes a cluster outside of the data directory. Call it first, so that it runs last. */
export function removeClusterAfterwards(dataDir: string): void {
  onTestFinished(async () => {
    const home = join(dataDir, 'postgres')
    const lock = await readLockFile(home).catch(() => undefined)
    if (lock && (await isPostgresOn(home, lock.pid))) {
      process.kill(lock.pid, 'SIGINT')
      while (await isPostgresOn(home, lock.pid)) await sleep(10)
    }
    const target = await readlink(home).catch(() => '')
    if (target.startsWith(`${clustersHome}/`)) await rm(target, { recursive: true, force: true })
  })
}

export async function dataDirectory(): Promise<string> {
  const dataDir = join(await scratch(), 'data')
  removeClusterAfterwards(dataDir)
  return dataDir
}

export async function open(
  dataDir: string,
  purpose: EmbeddedOptions['purpose'] = 'serve',
  more: Partial<EmbeddedOptions> = {},
): Promise<Embedded> {
  const embedded = await openEmbedded({ dataDir, purpose, settings: { fsync: 'off' }, ...more })
  onTestFinished(() => embedded.stop())
  return embedded
}

export async function query<T>(connection: EmbeddedConnection, run: (sql: Database) => Promise<T>): Promise<T> {
  const sql = connect({ ...connection, connectSeconds: 5 }, { name: 'test', connectionsMax: 1 })
  try {
    return await run(sql)
  } finally {
    await sql.end()
  }
}

export const putNote = (connection: EmbeddedConnection, text: string): Promise<unknown> =>
  query(connection, async (sql) => {
    await sql`create table if not exists note (text text)`
    await sql`insert into note values (${text})`
  })

export const notes = (connection: EmbeddedConnection): Promise<string[]> =>
  query(connection, async (sql) => (await sql<{ text: string }[]>`select text from note order by 1`).map((r) => r.text))

type Line = { note?: string; ready?: boolean; owned?: boolean; connection?: EmbeddedConnection; error?: string }
export type HolderProcess = {
  child: ChildProcess
  until(wanted: (line: Line) => boolean): Promise<Line>
  ended: Promise<void>
}

/** Another process that opens and locks the data directory. */
export function startHolder(dataDir: string, purpose: string, account?: { uid: number; gid: number }): HolderProcess {
  const script = join(import.meta.dirname, 'owner.ts')
  const child = spawn(process.execPath, [script, dataDir, purpose], {
    stdio: ['ignore', 'pipe', 'inherit'],
    ...account,
  })
  const ended = new Promise<void>((done) => child.once('exit', () => done()))
  onTestFinished(async () => {
    child.kill('SIGTERM')
    await ended
  })
  const lines: Line[] = []
  const reader = createInterface({ input: child.stdout })
  reader.on('line', (line) => lines.push(JSON.parse(line) as Line))
  return {
    child,
    ended,
    async until(wanted) {
      const line = await until(() => lines.find(wanted) ?? lines.find((line) => line.error !== undefined))
      if (!wanted(line)) throw new Error(line.error)
      return line
    },
  }
}
