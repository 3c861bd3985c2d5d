import { readdir } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, type ExpectStatic, test } from 'vitest'
import { type Database, isUnavailable } from '../../src/db/database.ts'
import { customerSql } from '../support/customer-sql.ts'
import { type BackupBody, type DatabaseBody, eventsOf } from './support/customer.ts'
import { createKillable, type Killable, nothingAmiss } from './support/killable.ts'
import { postmastersIn } from './support/platform.ts'

/*
 * The real program is killed at every step that it announces, started again, and what is left is counted: servers,
 * directories, archives, rows and events, each against the others. Two chains, side by side because they mostly wait.
 */
const provisioningSteps = [
  'place.settling',
  'provision.making',
  'provision.copying',
  'provision.starting',
  'provision.setting_password',
  'provision.settling',
  'provision.settled',
]
const databaseRemovalSteps = ['remove.stopping', 'remove.deleting_files', 'remove.settling', 'remove.settled']
const backupSteps = [
  'backup.starting',
  'backup.copying',
  'backup.stopping',
  'backup.copying_wal',
  'backup.verifying',
  'backup.settling',
  'backup.settled',
]
const restoreSteps = [
  'restore.unpacking',
  'restore.recovering',
  'restore.restarting',
  'restore.settling',
  'restore.settled',
]
const backupRemovalSteps = ['remove_backup.deleting', 'remove_backup.settling']

const databasesOf = (keyhook: Killable) => keyhook.get<DatabaseBody[]>('/databases')
const backupsOf = (keyhook: Killable) => keyhook.get<BackupBody[]>('/backups')

/** As a customer would: a server that was killed with us says for a moment that it is starting up. */
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

/** Killed at this step, started again, and everything has come to its end: what is there, is there in every list. */
async function killedAndBack(expect: ExpectStatic, keyhook: Killable, step: string, act: () => Promise<unknown>) {
  await keyhook.killedAt(step, act)
  await keyhook.start()
  const found = await keyhook.settled()
  expect(found, step).toMatchObject(nothingAmiss(found))
  return found
}

describe.concurrent('killed with kill -9', () => {
  test('at any step of provisioning and removal: every database whole or gone, one server each, one event each', async ({
    expect,
    onTestFinished,
  }) => {
    const keyhook = await createKillable()
    onTestFinished(() => keyhook.remove())
    // Made beside the very first start, before anybody asks for a database.
    await keyhook.killedAt('template.making', keyhook.start)
    await keyhook.start()
    expect((await readdir(keyhook.home)).some((name) => name.startsWith('template-'))).toBe(true)
    for (const [n, step] of provisioningSteps.entries()) {
      await killedAndBack(expect, keyhook, step, () => keyhook.askForDatabase(step))
      const made = (await databasesOf(keyhook)).filter((one) => one.name === step)
      expect(
        made.map((one) => one.status),
        step,
      ).toEqual(['available'])
      // A few are kept for what follows; more would only make every start slower.
      if (n < 3) await keyhook.request(`/databases/${made[0]!.id}`, { method: 'DELETE' })
    }
    await keyhook.settled()
    const events = await keyhook.withDb((db) => eventsOf(db, keyhook.orgId))
    expect(events.map((event) => `${event.type} ${event.data.name}`).sort()).toEqual(
      provisioningSteps.map((step) => `database.created ${step}`).sort(),
    )

    for (const step of databaseRemovalSteps) {
      const before = await databasesOf(keyhook)
      const victim = before.at(-1)!
      const found = await killedAndBack(expect, keyhook, step, () =>
        keyhook.request(`/databases/${victim.id}`, { method: 'DELETE' }),
      )
      expect(found.available, step).toEqual(before.flatMap(({ id }) => (id === victim.id ? [] : [id])).sort())
    }

    // And a clean stop: no server outlives it, and each comes back where it was.
    const before = await databasesOf(keyhook)
    await keyhook.stop()
    expect(await postmastersIn(keyhook.home)).toEqual([])
    await keyhook.start()
    await keyhook.settled()
    expect(await databasesOf(keyhook)).toEqual(before)
  }, 240_000)

  test('at any step of a backup, a restore and the removal of a backup: whole archives only, whole copies only, one event each', async ({
    expect,
    onTestFinished,
  }) => {
    const keyhook = await createKillable()
    onTestFinished(() => keyhook.remove())
    await keyhook.start()
    const source = await keyhook.createDatabase('source')
    await query(source, source.password, (sql) => sql`create table kept as select generate_series(1, 100) as n`)
    for (const [n, step] of backupSteps.entries()) {
      const found = await killedAndBack(expect, keyhook, step, () => keyhook.askForBackup(source.id))
      expect(found.archived, step).toHaveLength(n + 1)
    }
    // However often it is cut off, it was the process that ended, not the backup that failed.
    await keyhook.killedAt('backup.copying', () => keyhook.askForBackup(source.id))
    for (let n = 0; n < 3; n++) await keyhook.killedAt('backup.copying', keyhook.start)
    await keyhook.start()
    expect((await keyhook.settled()).archived).toHaveLength(backupSteps.length + 1)
    const [backup, ...others] = await backupsOf(keyhook)
    expect([backup, ...others].every((one) => one!.status === 'completed')).toBe(true)

    for (const step of restoreSteps) {
      let password = ''
      await killedAndBack(expect, keyhook, step, async () => {
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
      const victim = before.at(-1)!
      const found = await killedAndBack(expect, keyhook, step, () =>
        keyhook.request(`/backups/${victim.id}`, { method: 'DELETE' }),
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
  }, 240_000)
})
