import { randomBytes, randomInt } from 'node:crypto'
import { chmod, mkdtemp, readdir, readFile, readlink, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Logger, pino } from 'pino'
import { onTestFinished } from 'vitest'
import { composeHints } from '../../../src/compose/dispatcher.ts'
import { composeInstances, composeJobQueue, composePlatformNode } from '../../../src/compose/platform.ts'
import type { LocalInstances } from '../../../src/databases/drivers/driver.ts'
import type { JobQueue } from '../../../src/jobs/queue.ts'
import { readConfig } from '../../../src/settings/config.ts'
import type { Installation } from '../../../src/startup/open.ts'
import { call } from '../../kit/client.ts'
import { apiAlone, apiBeside } from '../../kit/composed.ts'
import { createInstallation, people, withoutLog } from '../../kit/installation.ts'
import { customerOf, eventsAbout } from './customer.ts'

/** A folder that the account of PostgreSQL may enter. */
export async function scratchFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'kh-p-'))
  await chmod(folder, 0o755)
  return realpath(folder)
}

/** Random, so that test files that run at the same time rarely get the same ports. */
export function portRange(count = 40): string {
  const first = 20_000 + randomInt(250) * 40
  return `${first}-${first + count - 1}`
}

// TEST_LOG=info shows the log of a node.
export const testLog = (): Logger => pino({ level: process.env.TEST_LOG ?? 'silent' })

/** The API of an installation in this process, and a client for the owner of an organization. */
export async function serveCustomer(installation: Installation, queue?: JobQueue) {
  const api = queue ? apiBeside(installation, queue, testLog()) : apiAlone(installation, testLog())
  const url = await api.app.listen({ host: '127.0.0.1', port: 0 })
  const who = people(installation)
  const signUp = async () => {
    const orgId = await who.organization()
    const owner = await who.person([{ orgId, role: 'owner' }])
    const base = `${url}/platform/v1/organizations/${orgId}`
    return { ...customerOf((path, more) => call(`${base}${path}`, { token: owner.token, ...more })), orgId }
  }
  const customer = await signUp()
  return {
    ...who,
    ...customer,
    url,
    /** A client for the owner of another organization. */
    another: signUp,
    eventsAbout: (key: string, id: string) => eventsAbout(installation.db, customer.orgId, key, id),
    close: api.close,
  }
}

/** A complete platform in this process: API, jobs, and real PostgreSQL instances on loopback. */
export async function startPlatform(
  more: Record<string, string> = {},
  around: (instances: LocalInstances) => LocalInstances = (instances) => instances,
) {
  const folder = await scratchFolder()
  const dataDir = join(folder, 'data')
  const installation = await createInstallation({
    KEYHOOK_DATA_DIR: dataDir,
    KEYHOOK_DATABASES_PORTS: portRange(),
    KEYHOOK_MASTER_KEY: randomBytes(32).toString('base64'),
    ...more,
  })
  const log = testLog()
  const queue = composeJobQueue(installation, { log, worksOnJobs: true })
  const instances = around(composeInstances(installation.config, log))
  const node = await composePlatformNode(installation, {
    log,
    queue,
    instances,
    hints: composeHints(installation, log),
  })
  await node.ready
  const customer = await serveCustomer(installation, queue)
  return {
    ...installation,
    ...customer,
    folder,
    queue,
    home: join(dataDir, 'databases'),
    archives: join(dataDir, 'archives'),
    async close() {
      await customer.close()
      await node.close()
      await installation.close()
      await rm(folder, { recursive: true, force: true })
    },
  }
}
export type Platform = Awaited<ReturnType<typeof startPlatform>>

/** Another node with its own data directory on the same PostgreSQL. Closed with the test. */
export async function startNode(
  installation: Installation,
  {
    log = testLog(),
    around = (instances: LocalInstances): LocalInstances => instances,
    ...more
  }: {
    log?: Logger
    environment?: Record<string, string>
    around?: (instances: LocalInstances) => LocalInstances
  } = {},
) {
  const folder = await scratchFolder()
  const dataDir = join(folder, 'data')
  const environment = {
    KEYHOOK_DATA_DIR: dataDir,
    KEYHOOK_DATABASES_PORTS: portRange(),
    ...withoutLog,
    ...more.environment,
  }
  const config = readConfig(environment)
  const queue = composeJobQueue(installation, { log, worksOnJobs: true })
  const instances = around(composeInstances(config, log))
  const node = await composePlatformNode(
    { ...installation, config },
    { log, queue, instances, hints: composeHints(installation, log) },
  )
  onTestFinished(async () => {
    await node.close()
    await rm(folder, { recursive: true, force: true })
  })
  return { ...node, queue, home: join(dataDir, 'databases'), archives: join(dataDir, 'archives') }
}

/** The postmasters of databases in this home: postgres processes whose parent is not one. An initdb of a spare cluster does not count. */
export async function postmastersIn(home: string): Promise<{ pid: number; cluster: string; parent: number }[]> {
  const found: { pid: number; cluster: string; parent: number }[] = []
  for (const name of await readdir('/proc')) {
    if (!/^\d+$/.test(name)) continue
    const cwd = await readlink(`/proc/${name}/cwd`).catch(() => '')
    const exe = await readlink(`/proc/${name}/exe`).catch(() => '')
    if (!cwd.startsWith(`${home}/db_`) || !/\/postgres( \(deleted\))?$/.test(exe)) continue
    const stat = await readFile(`/proc/${name}/stat`, 'utf8').catch(() => '')
    found.push({ pid: Number(name), cluster: cwd, parent: Number(stat.split(') ')[1]?.split(' ')[1]) })
  }
  const pids = new Set(found.map((one) => one.pid))
  return found.filter((one) => !pids.has(one.parent))
}

/** The names in a directory, without spare clusters, extensions and the number of the next uid. */
export const namesIn = async (path: string): Promise<string[]> =>
  (await readdir(path).catch(() => [])).filter((name) => !/^(spare-|extensions-|next-uid)/.test(name)).sort()

/** The backups whose archives are in a directory, sorted. A file that is not a complete archive is in it by its whole name. */
export async function archivesIn(path: string): Promise<string[]> {
  const entries = await readdir(path, { withFileTypes: true, recursive: true }).catch(() => [])
  const names = entries.filter((entry) => entry.isFile()).map((entry) => entry.name)
  return names.map((name) => name.replace(/\.tar\.zst(\.age)?$/, '')).sort()
}

/** The file of a backup's archive. */
export async function archivePath(path: string, backupId: string): Promise<string> {
  const entries = await readdir(path, { withFileTypes: true, recursive: true })
  const found = entries.find((entry) => entry.name.startsWith(`${backupId}.`))
  if (found === undefined) throw new Error(`there is no archive of ${backupId} in ${path}`)
  return join(found.parentPath, found.name)
}
