import { readdir } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, type ExpectStatic, test } from 'vitest'
import { type Database, isUnavailable } from '../../src/db/database.ts'
import { customerSql } from '../kit/customer-sql.ts'
import { type BackupBody, type DatabaseBody, eventsOf } from './support/customer.ts'
import { consistent, createKillable, type Killable } from './support/killable.ts'
import { postmastersIn } from './support/platform.ts'

/*
 * Kills the real program at its traced steps, starts it again, and compares servers, directories, archives, rows and events
 * with each other. Two chains in parallel, because they mostly wait.
 *
 * A kill and restart takes about three seconds, so the short run uses the first steps of each list: those with files but no
 * outcome, and those between the outcome and the end of the job. KEYHOOK_TEST_LONG=1 uses all steps.
 */
const isLong = process.env.KEYHOOK_TEST_LONG === '1'
const timeoutMs = isLong ? 600_000 : 240_000
const stepsOf = (short: string[], long: string[]): string[] => (isLong ? [...short, ...long] : short)

const provisioningSteps = stepsOf(
  ['provision.taking_cluster', 'provision.setting_password', 'provision.settled'],
  ['place.settling', 'provision.creating', 'provision.starting', 'provision.settling'],
)
const databaseRemovalSteps = stepsOf(
  ['remove.deleting_files'],
  ['remove.stopping', 'remove.settling', 'remove.settled'],
)
const backupSteps = stepsOf(
  ['backup.copying', 'backup.settling'],
  ['backup.starting', 'backup.stopping', 'backup.copying_wal', 'backup.verifying', 'backup.settled'],
)
const restoreSteps = stepsOf(
  ['restore.unpacking', 'restore.restarting'],
  ['restore.recovering', 'restore.settling', 'restore.settled'],
)
const backupRemovalSteps = stepsOf(['remove_backup.settling'], ['remove_backup.deleting'])

const databasesOf = (keyhook: Killable) => keyhook.get<DatabaseBody[]>('/databases')
const backupsOf = (keyhook: Killable) => keyhook.get<BackupBody[]>('/backups')

/** Retries, because a server that was killed answers for a moment that it is starting up. */
async function query<T>(database: DatabaseBody, password: string, run: (sql: Database) => Promise<T>): Promise<T> {
  const deadline = Date.now() + 20_000
  for (;;) {
    const sql = customerSql(database.connection_string!, password)
    try {
      return await run(sql)
    } catch (error) {
      if (!isUnavailable(error) || Date.now() > deadline) throw error
      await sleep(50)
    } finally {
      await sql.end({ timeout: 1 })
    }
  }
}

/** Kills at this step, starts again, waits for all jobs, and checks that processes, files and rows agree. */
async function killAndRestart(expect: ExpectStatic, keyhook: Killable, step: string, act: () => Promise<unknown>) {
  await keyhook.killedAt(step, act)
  await keyhook.start()
  const found = await keyhook.settled()
  expect(found, step).toMatchObject(consistent(found))
  return found
}

describe.concurrent('killed with kill -9', () => {
  test(
    'while databases are created and removed: each is complete or gone, with one server and one event',
    async ({ expect, onTestFinished }) => {
      const keyhook = await createKillable()
      onTestFinished(() => keyhook.remove())
      // Created during the first start, before there is any database.
      await keyhook.killedAt('spare.creating', keyhook.start)
      await keyhook.start()
      expect((await readdir(keyhook.home)).some((name) => name.startsWith('spare-'))).toBe(true)
      for (const [n, step] of provisioningSteps.entries()) {
        await killAndRestart(expect, keyhook, step, () => keyhook.askForDatabase(step))
        const made = (await databasesOf(keyhook)).filter((one) => one.name === step)
        expect(
          made.map((one) => one.status),
          step,
        ).toEqual(['available'])
        // Some are kept for the removals below; more would only make every start slower.
        if (n < provisioningSteps.length - databaseRemovalSteps.length)
          await keyhook.request(`/databases/${made[0]!.id}`, { method: 'DELETE' })
      }
      await keyhook.settled()
      const events = await keyhook.withDb((db) => eventsOf(db, keyhook.orgId))
      expect(events.map((event) => `${event.type} ${event.data.name}`).sort()).toEqual(
        provisioningSteps.map((step) => `database.created ${step}`).sort(),
      )

      for (const step of databaseRemovalSteps) {
        const before = await databasesOf(keyhook)
        const removed = before.at(-1)!
        const found = await killAndRestart(expect, keyhook, step, () =>
          keyhook.request(`/databases/${removed.id}`, { method: 'DELETE' }),
        )
        expect(found.available, step).toEqual(before.flatMap(({ id }) => (id === removed.id ? [] : [id])).sort())
      }

      // A clean stop ends all servers, and the next start resumes them.
      const before = await databasesOf(keyhook)
      await keyhook.stop()
      expect(await postmastersIn(keyhook.home)).toEqual([])
      await keyhook.start()
      await keyhook.settled()
      expect(await databasesOf(keyhook)).toEqual(before)
    },
    timeoutMs,
  )

  test(
    'during backups, restores and removals of backups: only complete archives and copies, with one event each',
    async ({ expect, onTestFinished }) => {
      const keyhook = await createKillable()
      onTestFinished(() => keyhook.remove())
      await keyhook.start()
      const source = await keyhook.createDatabase('source')
      await query(source, source.password, (sql) => sql`create table kept as select generate_series(1, 100) as n`)
      for (const [n, step] of backupSteps.entries()) {
        const found = await killAndRestart(expect, keyhook, step, () => keyhook.askForBackup(source.id))
        expect(found.archived, step).toHaveLength(n + 1)
      }
      // A kill of the process does not count as a failure of the backup.
      await keyhook.killedAt('backup.copying', () => keyhook.askForBackup(source.id))
      for (let n = 0; n < (isLong ? 3 : 1); n++) await keyhook.killedAt('backup.copying', keyhook.start)
      await keyhook.start()
      expect((await keyhook.settled()).archived).toHaveLength(backupSteps.length + 1)
      const [backup, ...others] = await backupsOf(keyhook)
      expect([backup, ...others].every((one) => one!.status === 'completed')).toBe(true)

      for (const step of restoreSteps) {
        let password = ''
        await killAndRestart(expect, keyhook, step, async () => {
          password = (await keyhook.askForRestore(backup!.id, step)).database.password
        })
        const copies = (await databasesOf(keyhook)).filter((one) => one.name === step)
        expect(copies.map((one) => one.status)).toEqual(['available'])
        const rows = await query(copies[0]!, password, (sql) => sql`select count(*)::int as n from kept`)
        expect(rows, step).toEqual([{ n: 100 }])
        await keyhook.request(`/databases/${copies[0]!.id}`, { method: 'DELETE' })
      }
      await keyhook.settled()

      for (const step of backupRemovalSteps) {
        const before = await backupsOf(keyhook)
        const removed = before.at(-1)!
        const found = await killAndRestart(expect, keyhook, step, () =>
          keyhook.request(`/backups/${removed.id}`, { method: 'DELETE' }),
        )
        expect(found.archived, step).toHaveLength(before.length - 1)
      }

      const events = await keyhook.withDb((db) => eventsOf(db, keyhook.orgId))
      const counts = Object.entries(Object.groupBy(events, (event) => event.type)).map(([type, all]) => [
        type,
        all!.length,
      ])
      expect(Object.fromEntries(counts)).toEqual({
        'database.created': 1,
        'backup.completed': backupSteps.length + 1,
        'restore.completed': restoreSteps.length,
      })
    },
    timeoutMs,
  )
})
