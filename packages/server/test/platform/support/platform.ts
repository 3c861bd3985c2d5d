import { randomBytes, randomInt } from 'node:crypto'
import { chmod, mkdtemp, readdir, readFile, readlink, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { pino } from 'pino'
import postgres from 'postgres'
import { onTestFinished } from 'vitest'
import { composeApi, composeJobQueue, composePlatformNode } from '../../../src/compose.ts'
import type { OrgId } from '../../../src/kernel/ids.ts'
import type { Installation } from '../../../src/startup/open.ts'
import { call, type Reply } from '../../support/client.ts'
import { createInstallation, people } from '../../support/installation.ts'

/** A folder that the account of PostgreSQL may enter. */
export async function scratchFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'keyhook-platform-'))
  await chmod(folder, 0o755)
  return realpath(folder)
}

/** Ports that no other test file of the run is likely to use at the same time. */
export function portRange(count = 40): string {
  const first = 20_000 + randomInt(250) * 40
  return `${first}-${first + count - 1}`
}

export type PlatformOptions = { environment?: Record<string, string>; dataDir?: string; installation?: Installation }

/** A whole platform in this process: API, jobs, and real PostgreSQL instances on loopback. */
export async function startPlatform(options: PlatformOptions = {}) {
  const folder = options.dataDir ?? (await scratchFolder())
  const environment = {
    KEYHOOK_DATA_DIR: join(folder, 'data'),
    KEYHOOK_DATABASES_PORTS: portRange(),
    KEYHOOK_MASTER_KEY: randomBytes(32).toString('base64'),
    ...options.environment,
  }
  const installation = await createInstallation(environment)
  // TEST_LOG=info shows what the node does.
  const log = pino({ level: process.env.TEST_LOG ?? 'silent' })
  const queue = composeJobQueue(installation, log)
  const node = await composePlatformNode(installation, log, queue)
  await node.ready
  const api = composeApi(installation, log, queue)
  const url = await api.app.listen({ host: '127.0.0.1', port: 0 })
  const who = people(installation)
  const orgId = await who.organization()
  const owner = await who.person([{ orgId, role: 'owner' }])
  const base = `${url}/platform/v1/organizations/${orgId}`
  const home = join(folder, 'data', 'databases')

  return {
    ...installation,
    ...who,
    url,
    base,
    orgId,
    owner,
    folder,
    home,
    queue,
    archives: join(folder, 'data', 'archives'),
    request: <T>(path: string, more: { method?: string; body?: unknown; token?: string } = {}) =>
      call<T>(`${base}${path}`, { token: owner.token, ...more }),
    async close() {
      await api.close()
      await node.close()
      await installation.close()
      await rm(folder, { recursive: true, force: true })
    },
  }
}
export type Platform = Awaited<ReturnType<typeof startPlatform>>

export type DatabaseBody = {
  id: string
  name: string
  status: string
  host: string | null
  port: number | null
  user: string
  database: string
  connection_string: string | null
  failure: string | null
  password?: string
}
export type BackupBody = {
  id: string
  status: string
  failure: string | null
  bytes_done: number
  bytes_total: number | null
  size_bytes: number | null
}
export type RestoreBody = {
  id: string
  status: string
  failure: string | null
  bytes_done: number
  bytes_total: number | null
}

/** Asks until the answer is what is wanted. The deadline is for a noisy machine; nothing waits for it when all is well. */
export async function until<T>(ask: () => Promise<T>, wanted: (value: T) => boolean, msMax = 40_000): Promise<T> {
  const deadline = Date.now() + msMax
  for (;;) {
    const value = await ask()
    if (wanted(value)) return value
    if (Date.now() > deadline) throw new Error(`still ${JSON.stringify(value)}`)
    await sleep(20)
  }
}

type Asker = Pick<Platform, 'request'>

export async function createDatabase(platform: Asker, name = 'shop'): Promise<DatabaseBody & { password: string }> {
  const { body } = await platform.request<DatabaseBody & { password: string }>('/databases', { body: { name } })
  const ready = await settledDatabase(platform, body.id)
  if (ready.status !== 'available') throw new Error(`${ready.status}: ${ready.failure}`)
  return { ...ready, password: body.password }
}

const body = <T>(reply: Reply<T>): T => reply.body

export const settledDatabase = (platform: Asker, id: string): Promise<DatabaseBody> =>
  until(
    () => platform.request<DatabaseBody>(`/databases/${id}`).then(body),
    (database) => database.status !== 'provisioning',
  )

export const gone = (platform: Asker, path: string): Promise<unknown> =>
  until(
    () => platform.request(path).then((reply) => reply.status),
    (status) => status === 404,
  )

export const settledBackup = (platform: Asker, id: string): Promise<BackupBody> =>
  until(
    () => platform.request<BackupBody>(`/backups/${id}`).then(body),
    (backup) => backup.status !== 'running',
  )

export async function takeBackup(platform: Asker, databaseId: string): Promise<BackupBody> {
  const { body } = await platform.request<BackupBody>(`/databases/${databaseId}/backups`, { method: 'POST' })
  return settledBackup(platform, body.id)
}

export async function restoreBackup(
  platform: Asker,
  backupId: string,
  name = 'copy',
): Promise<{ restore: RestoreBody; database: DatabaseBody & { password: string } }> {
  const asked = await platform.request<{ restore: RestoreBody; database: DatabaseBody & { password: string } }>(
    `/backups/${backupId}/restore`,
    { body: { name } },
  )
  const restore = await until(
    () => platform.request<RestoreBody>(`/restores/${asked.body.restore.id}`).then(body),
    (one) => one.status !== 'running',
  )
  const database = await settledDatabase(platform, asked.body.database.id)
  return { restore, database: { ...database, password: asked.body.database.password } }
}

/** An ordinary client with the printed string. Ended with the test. */
export function clientOf(database: { connection_string: string | null; password: string }, max = 1): postgres.Sql {
  const sql = postgres(database.connection_string!, {
    password: database.password,
    max,
    onnotice: () => {},
    connect_timeout: 5,
  })
  onTestFinished(() => sql.end({ timeout: 1 }))
  return sql
}

/** The event types of an organization, oldest first, with what each is about. */
export async function eventsOf(db: postgres.Sql, orgId: OrgId | string) {
  const rows = await db<{ type: string; body: string }[]>`
    select type, body from keyhook.events where org_id = ${orgId} order by seq`
  return rows.map((row) => ({ type: row.type, data: JSON.parse(row.body).data as Record<string, unknown> }))
}

/** Postmasters that work in this home: those whose parent is not a postgres themselves. */
export async function postmastersIn(home: string): Promise<{ pid: number; cluster: string; parent: number }[]> {
  const found: { pid: number; cluster: string; parent: number }[] = []
  for (const name of await readdir('/proc')) {
    if (!/^\d+$/.test(name)) continue
    const cwd = await readlink(`/proc/${name}/cwd`).catch(() => '')
    const exe = await readlink(`/proc/${name}/exe`).catch(() => '')
    if (!cwd.startsWith(`${home}/`) || !/\/postgres( \(deleted\))?$/.test(exe)) continue
    const stat = await readFile(`/proc/${name}/stat`, 'utf8').catch(() => '')
    found.push({ pid: Number(name), cluster: cwd, parent: Number(stat.split(') ')[1]?.split(' ')[1]) })
  }
  const pids = new Set(found.map((one) => one.pid))
  return found.filter((one) => !pids.has(one.parent))
}

/** What lies in a directory, templates aside. */
export const namesIn = async (path: string): Promise<string[]> =>
  (await readdir(path).catch(() => [])).filter((name) => !name.startsWith('template-')).sort()
