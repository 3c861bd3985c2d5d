import { afterAll, beforeAll, expect, test } from 'vitest'
import type { PlatformJob } from '../../src/jobs/queue.ts'
import { ensureQueues, nodeQueue } from '../../src/jobs/queue.ts'
import { newId } from '../../src/lib/ids.ts'
import { createPausedBackups } from '../databases/support/paused-backups.ts'
import { type Platform, startPlatform } from '../databases/support/platform.ts'
import { until } from '../kit/until.ts'

const backups = createPausedBackups()
let platform: Platform
beforeAll(async () => {
  platform = await startPlatform({}, backups.around)
})
afterAll(async () => {
  backups.resume()
  await platform.close()
})

test('in the queue of a node short jobs come first, then restores, then backups', async () => {
  const { queue, db, orgId } = platform
  const boss = await queue.boss()
  const name = nodeQueue('elsewhere')
  await ensureQueues(boss, name)
  await db.begin(async (tx) => {
    const node = 'elsewhere'
    await queue.enqueue(tx, { kind: 'backup.take', orgId, backupId: newId('bak'), node })
    await queue.enqueue(tx, { kind: 'restore.run', orgId, restoreId: newId('rst'), node })
    await queue.enqueue(tx, { kind: 'database.remove', orgId, databaseId: newId('db'), node })
  })
  const kinds: string[] = []
  for (let [job] = await boss.fetch<PlatformJob>(name); job; [job] = await boss.fetch<PlatformJob>(name)) {
    kinds.push(job.data.kind)
  }
  expect(kinds).toEqual(['database.remove', 'restore.run', 'backup.take'])
})

test('databases are created and removed while all backup workers are busy, and no organization uses all of them', async () => {
  const databases = await Promise.all(Array.from({ length: 5 }, (_, n) => platform.createDatabase(`busy-${n}`)))
  const other = await platform.another()
  const { id: elsewhere } = await other.createDatabase('elsewhere')
  const busy = (count: number) =>
    until(
      async () => backups.paused.size,
      (size) => size === count,
    )
  backups.pause()
  const asked = await Promise.all(databases.map(({ id }) => platform.askForBackup(id)))
  await busy(3)
  const theirs = await other.askForBackup(elsewhere)
  await busy(4)
  expect(backups.paused).toContain(elsewhere)
  await platform.createDatabase('new')
  const [removed] = databases.filter(({ id }) => backups.paused.has(id))
  await platform.removeDatabase(removed!.id)
  backups.resume()
  for (const [n, { id }] of asked.entries()) {
    const status = databases[n] === removed ? 'failed' : 'completed'
    expect(await platform.settledBackup(id)).toMatchObject({ status })
  }
  expect(await other.settledBackup(theirs.id)).toMatchObject({ status: 'completed' })
}, 120_000)
