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

test('a machine that is gone for a day is forgotten when another starts, unless databases or backups are there', async () => {
  const { db, orgId } = platform
  const { userId } = await platform.person()
  await db`
    insert into keyhook.nodes (id, databases_max, seen_at)
    select id, 1, now() - make_interval(hours => hours)
    from (values ('empty', 25), ('resting', 23), ('with-database', 25), ('with-backup', 25)) as n (id, hours)`
  await db`
    insert into keyhook.databases (org_id, id, name, status, node, created_by, deleted_at)
    values (${orgId}, 'db_1', 'kept', 'failed', 'with-database', ${userId}, null),
      (${orgId}, 'db_2', 'gone', 'deleted', 'empty', ${userId}, now()),
      (${orgId}, 'db_3', 'gone', 'deleted', 'with-backup', ${userId}, now())`
  await db`
    insert into keyhook.backups (org_id, id, database_id, node, origin, status, size_bytes, sha256)
    values (${orgId}, 'bak_1', 'db_2', 'empty', 'requested', 'deleted', 1, ''),
      (${orgId}, 'bak_2', 'db_3', 'with-backup', 'requested', 'completed', 1, '')`
  const other = await startNode(platform)
  await other.ready
  const known = await db<{ id: string }[]>`
    select id from keyhook.nodes where seen_at < now() - interval '1 hour' order by id`
  expect(known.map((row) => row.id)).toEqual(['resting', 'with-backup', 'with-database'])
})
