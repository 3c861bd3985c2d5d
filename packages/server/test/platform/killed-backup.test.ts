import { afterAll, beforeAll, expect, test } from 'vitest'
import { createKillable, type Killable, nothingAmiss } from './support/killable.ts'
import { type BackupBody, clientOf, createDatabase, type DatabaseBody, eventsOf } from './support/platform.ts'

let keyhook: Killable
let source: DatabaseBody & { password: string }
beforeAll(async () => {
  keyhook = await createKillable()
  await keyhook.start()
  source = await createDatabase(keyhook, 'source')
})
afterAll(() => keyhook.remove())

const backups = async () => (await keyhook.request<BackupBody[]>('/backups')).body

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
const removalSteps = ['remove_backup.deleting', 'remove_backup.settling']

test('killed at any step of a backup, it ends with one archive that is whole, and one event', async () => {
  await clientOf(source)`create table kept as select generate_series(1, 100) as n`
  for (const [n, step] of backupSteps.entries()) {
    await keyhook.killedAt(step, () => keyhook.request(`/databases/${source.id}/backups`, { method: 'POST' }))
    await keyhook.start()
    const found = await keyhook.settled()
    expect(found, step).toMatchObject(nothingAmiss(found))
    expect(found.archived, step).toHaveLength(n + 1)
  }
  expect((await backups()).map((one) => one.status)).toEqual(backupSteps.map(() => 'completed'))
  const events = await keyhook.withDb((db) => eventsOf(db, keyhook.orgId))
  expect(events.filter((event) => event.type === 'backup.completed')).toHaveLength(backupSteps.length)
  expect(events.filter((event) => event.type === 'backup.failed')).toEqual([])
}, 120_000)

test('killed at any step of a restore, it ends with one new database that has everything, and one event', async () => {
  const [backup] = await backups()
  for (const step of restoreSteps) {
    let password = ''
    await keyhook.killedAt(step, async () => {
      const path = `/backups/${backup!.id}/restore`
      const asked = await keyhook.request<{ database: DatabaseBody }>(path, { body: { name: step } })
      password = asked.body.database.password!
    })
    await keyhook.start()
    const found = await keyhook.settled()
    expect(found, step).toMatchObject(nothingAmiss(found))
    const copies = (await keyhook.request<DatabaseBody[]>('/databases')).body.filter((one) => one.name === step)
    expect(
      copies.map((one) => one.status),
      step,
    ).toEqual(['available'])
    const rows = await clientOf({ ...copies[0]!, password })`select count(*)::int as n from kept`
    expect(rows, step).toEqual([{ n: 100 }])
    await keyhook.request(`/databases/${copies[0]!.id}`, { method: 'DELETE' })
  }
  await keyhook.settled()
  const events = await keyhook.withDb((db) => eventsOf(db, keyhook.orgId))
  expect(events.filter((event) => event.type === 'restore.completed')).toHaveLength(restoreSteps.length)
  expect(events.filter((event) => event.type === 'database.failed')).toEqual([])
}, 120_000)

test('killed at any step of removing a backup, it ends without the archive', async () => {
  for (const step of removalSteps) {
    const before = await backups()
    const victim = before.at(-1)!
    await keyhook.killedAt(step, () => keyhook.request(`/backups/${victim.id}`, { method: 'DELETE' }))
    await keyhook.start()
    const found = await keyhook.settled()
    expect(found, step).toMatchObject(nothingAmiss(found))
    expect(found.archived).toHaveLength(before.length - 1)
  }
}, 60_000)
