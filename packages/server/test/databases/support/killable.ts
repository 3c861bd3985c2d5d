import { randomBytes } from 'node:crypto'
import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { connect, type Database } from '../../../src/db/database.ts'
import { createMasterKeys } from '../../../src/lib/master-keys.ts'
import { createLocalIssuer } from '../../../src/login/login-tokens.ts'
import { readSecret } from '../../../src/postgres/data-directory.ts'
import { readLockFile } from '../../../src/postgres/lock-file.ts'
import { call } from '../../kit/client.ts'
import { withoutLog } from '../../kit/installation.ts'
import { until } from '../../kit/until.ts'
import { customerOf, type DatabaseBody } from './customer.ts'
import { archivesIn, namesIn, portRange, postmastersIn, scratchFolder } from './platform.ts'
import { createProgram, inTime } from './program.ts'

/** The real program with its embedded PostgreSQL on one data directory, to be killed and started again. */
export async function createKillable(more: Record<string, string> = {}) {
  const folder = await scratchFolder()
  const dataDir = join(folder, 'data')
  const masterKey = randomBytes(32)
  const issuer = createLocalIssuer({ masterKeys: createMasterKeys([masterKey]), now: () => new Date() })
  const program = createProgram({
    folder,
    environment: {
      KEYHOOK_DATA_DIR: dataDir,
      KEYHOOK_DATABASES_PORTS: portRange(),
      KEYHOOK_MASTER_KEY: masterKey.toString('base64'),
      ...withoutLog,
      ...more,
    },
  })
  let base = ''
  let token = ''

  const killable = {
    home: join(dataDir, 'databases'),
    archives: join(dataDir, 'archives'),
    orgId: '',
    async start(): Promise<void> {
      const ready = await program.start()
      token = await issuer.issue({ subject: ready.owner_id, ttlSeconds: 3_600 })
      base = `${ready.url}/platform/v1/organizations/${ready.organization_id}`
      killable.orgId = ready.organization_id
    },
    ...customerOf((path, more) => call(`${base}${path}`, { token, ...more })),
    /** Runs `act` and waits until the process is killed at `step`. The connection of `act` may break. */
    async killedAt(step: string, act: () => Promise<unknown>): Promise<void> {
      await program.failAt(step)
      await act().catch(() => {})
      const how = await inTime(program.ended, `killed at ${step}`)
      if (how !== 'SIGKILL') throw new Error(`the step ${step} did not kill the process: ${how}`)
    },
    stop: program.stop,
    /** Connects to the installation's database from outside of the program. */
    async withDb<T>(work: (db: Database) => Promise<T>): Promise<T> {
      const lock = await readLockFile(join(dataDir, 'postgres'))
      const password = await readSecret(join(dataDir, 'postgres.password'))
      const target = {
        host: lock!.socketDirectory!,
        port: 5432,
        user: 'keyhook',
        password: password!,
        database: 'keyhook',
      }
      const db = connect(target, { name: 'test', connectionsMax: 1 })
      try {
        return await work(db)
      } finally {
        await db.end({ timeout: 1 })
      }
    },
    /** Processes, directories, archives and rows, to compare them with each other. */
    async inventory() {
      return killable.withDb(async (db) => {
        // One statement is one snapshot.
        const [rows] = await db<{ available: string[]; archived: string[]; unsettled: Record<string, number> }[]>`
          select array(select id from keyhook.databases where status = 'available' order by id) as available,
            array(select id from keyhook.backups where status = 'completed' order by id) as archived,
            json_build_object(
              'databases', (select count(*) from keyhook.databases where status in ('provisioning', 'deleting')),
              'backups', (select count(*) from keyhook.backups where status in ('running', 'deleting')),
              'restores', (select count(*) from keyhook.restores where status = 'running'),
              'verifiers', (select count(*) from keyhook.databases where password_verifier is not null)
            ) as unsettled`
        const { available, archived, unsettled } = rows!
        const servers = await postmastersIn(killable.home)
        const processes = servers.map((one) => one.cluster.split('/').at(-2)!)
        return {
          available,
          processes: processes.sort(),
          directories: await namesIn(killable.home),
          archived,
          archives: await archivesIn(killable.archives),
          // Servers of a killed process that this one has not replaced yet.
          orphans: servers.filter((one) => one.parent !== program.pid).length,
          unsettled,
        }
      })
    },
    /** Waits until every job has an outcome and every database runs. */
    async settled() {
      const quiet = (counts: Record<string, number>) => Object.values(counts).every((count) => count === 0)
      const found = await until(
        killable.inventory,
        (found) => quiet(found.unsettled) && found.orphans === 0 && found.available.length === found.processes.length,
      )
      // A node that has just started says a moment later that the servers run.
      await until(
        () => killable.get<DatabaseBody[]>('/databases'),
        (databases) => !databases.some((one) => one.status === 'unreachable'),
      )
      return found
    },
    async remove(): Promise<void> {
      await killable.stop()
      await rm(folder, { recursive: true, force: true })
      const left = await readdir(folder).catch(() => [])
      if (left.length > 0) throw new Error(`${folder} was not removed`)
    },
  }
  return killable
}
export type Killable = Awaited<ReturnType<typeof createKillable>>

/** What the lists of an inventory have to be, given its rows. */
export const consistent = (found: Awaited<ReturnType<Killable['inventory']>>) => ({
  processes: found.available,
  directories: found.available,
  archives: found.archived,
})
