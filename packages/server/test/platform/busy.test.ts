import { afterAll, beforeAll, expect, test } from 'vitest'
import { until } from './support/customer.ts'
import { createBackupHold } from './support/held-backups.ts'
import { type Platform, startPlatform } from './support/platform.ts'

const backups = createBackupHold()
let platform: Platform
beforeAll(async () => {
  platform = await startPlatform({}, backups.around)
})
afterAll(async () => {
  backups.release()
  await platform.close()
})

test('databases are made and removed while every worker that takes backups is at one', async () => {
  const databases = await Promise.all(Array.from({ length: 4 }, (_, n) => platform.createDatabase(`busy-${n}`)))
  backups.hold()
  const [doomed, ...others] = await Promise.all(databases.map(({ id }) => platform.askForBackup(id)))
  await until(
    async () => backups.held.size,
    (count) => count === databases.length,
  )
  await platform.createDatabase('new')
  await platform.removeDatabase(databases[0]!.id)
  expect(await platform.settledBackup(doomed!.id)).toMatchObject({ status: 'failed' })
  backups.release()
  for (const { id } of others) expect(await platform.settledBackup(id)).toMatchObject({ status: 'completed' })
}, 60_000)
