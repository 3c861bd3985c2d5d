import { afterAll, beforeAll, expect, test } from 'vitest'
import { composePlatformNode } from '../../src/compose.ts'
import { DataDirectoryInUse } from '../../src/store/embedded/index.ts'
import { clientOf } from './support/customer.ts'
import { namesIn, type Platform, startNode, startPlatform, testLog } from './support/platform.ts'

let platform: Platform
beforeAll(async () => {
  platform = await startPlatform({ KEYHOOK_DATABASES_PER_NODE_MAX: '1' })
})
afterAll(() => platform.close())

test('a second process on one data directory is told who has it, and starts nothing', async () => {
  await expect(composePlatformNode(platform, testLog(), platform.queue)).rejects.toBeInstanceOf(DataDirectoryInUse)
})

test('a database that does not fit on one node goes to another, and all work on it is done where it is', async () => {
  const here = await platform.createDatabase('here')
  expect(await namesIn(platform.home)).toEqual([here.id])
  const other = await startNode(platform)
  await other.ready
  const there = await platform.createDatabase('there')
  expect(await namesIn(other.home)).toEqual([there.id])
  await clientOf(there)`create table t (n int)`
  const backup = await platform.takeBackup(there.id)
  expect(backup.status).toBe('completed')
  expect(await namesIn(other.archives)).toEqual([`${backup.id}.tar.zst`])
  expect(await namesIn(platform.archives)).toEqual([])
  await platform.removeDatabase(there.id)
  await platform.request(`/backups/${backup.id}`, { method: 'DELETE' })
  await platform.gone(`/backups/${backup.id}`)
  expect(await namesIn(other.home)).toEqual([])
  expect(await namesIn(other.archives)).toEqual([])
  expect(await namesIn(platform.home)).toEqual([here.id])
})
