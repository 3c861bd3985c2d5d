import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { composeHints } from '../../src/compose/dispatcher.ts'
import type { PlatformNode } from '../../src/compose/node.ts'
import { composeInstances, composeJobQueue, composePlatformNode } from '../../src/compose/platform.ts'
import type { LocalInstances } from '../../src/databases/drivers/driver.ts'
import { pricesInUse } from '../../src/databases/node-sql.ts'
import { DataDirectoryInUse } from '../../src/postgres/index.ts'
import { readConfig } from '../../src/settings/config.ts'
import { clientOf, type DatabaseBody } from './support/customer.ts'
import {
  archivesIn,
  namesIn,
  type Platform,
  portRange,
  scratchFolder,
  startNode,
  startPlatform,
  testLog,
} from './support/platform.ts'

let platform: Platform
beforeAll(async () => {
  const prices = { KEYHOOK_CURRENCY: 'CHF', KEYHOOK_DATABASE_HOUR_PRICE_MINOR: '3' }
  platform = await startPlatform({ KEYHOOK_DATABASES_PER_NODE_MAX: '1', ...prices })
})
afterAll(() => platform.close())

test('a node publishes its prices for invoices that an operator issues', async () => {
  expect(await pricesInUse(platform.db)).toEqual({ currency: 'CHF', hourPriceMinor: 3 })
})

test('a second process on a data directory is rejected', async () => {
  const log = testLog()
  const instances = composeInstances(platform.config, log)
  const parts = { log, queue: platform.queue, instances, hints: composeHints(platform, log) }
  await expect(composePlatformNode(platform, parts)).rejects.toBeInstanceOf(DataDirectoryInUse)
})

test('a database that does not fit on one node goes to another, where all its jobs run', async () => {
  const here = await platform.createDatabase('here')
  expect(await namesIn(platform.home)).toEqual([here.id])
  const other = await startNode(platform)
  await other.ready
  const there = await platform.createDatabase('there')
  expect(await namesIn(other.home)).toEqual([there.id])
  await clientOf(there)`create table t (n int)`
  const backup = await platform.takeBackup(there.id)
  expect(backup.status).toBe('completed')
  expect(await archivesIn(other.archives)).toEqual([backup.id])
  expect(await archivesIn(platform.archives)).toEqual([])
  await platform.removeDatabase(there.id)
  await platform.request(`/backups/${backup.id}`, { method: 'DELETE' })
  await platform.gone(`/backups/${backup.id}`)
  expect(await namesIn(other.home)).toEqual([])
  expect(await archivesIn(other.archives)).toEqual([])
  expect(await namesIn(platform.home)).toEqual([here.id])
})

/** A node that can be closed and started again on one folder. */
async function restartable() {
  const folder = await scratchFolder()
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const own = { KEYHOOK_DATA_DIR: join(folder, 'data'), KEYHOOK_DATABASES_PORTS: portRange() }
  let node: PlatformNode | undefined
  onTestFinished(() => node?.close())
  return {
    databases: () => namesIn(join(folder, 'data/databases')),
    async start(
      more: Record<string, string> = {},
      around = (instances: LocalInstances) => instances,
    ): Promise<PlatformNode> {
      await node?.close()
      const config = readConfig({ ...own, ...more })
      const log = testLog()
      const instances = around(composeInstances(config, log))
      const queue = composeJobQueue(platform, { log, worksOnJobs: true })
      node = await composePlatformNode(
        { ...platform, config },
        { log, queue, instances, hints: composeHints(platform, log) },
      )
      return node
    },
  }
}

test('a node that restarts with another public host updates the addresses of its own databases only', async () => {
  const node = await restartable()
  await (await node.start()).ready
  // The other node has room for one of them at most.
  const made = [await platform.createDatabase('one'), await platform.createDatabase('two')]
  await (await node.start({ KEYHOOK_DATABASES_PUBLIC_HOST: 'databases.example.com' })).ready
  const moved = await node.databases()
  expect(moved.length).toBeGreaterThan(0)
  for (const { id, host, port } of made) {
    const now = moved.includes(id) ? 'databases.example.com' : host
    const database = await platform.get<DatabaseBody>(`/databases/${id}`)
    expect(database).toMatchObject({
      host: now,
      port,
      connection_string: `postgres://app@${now}:${port}/app?sslmode=verify-full`,
    })
    await platform.removeDatabase(id)
  }
})

test('a database that cannot be resumed does not block others, and can be deleted', async () => {
  const node = await restartable()
  await (await node.start()).ready
  const made = [await platform.createDatabase('one'), await platform.createDatabase('two')]
  await node.start({}, (instances) => ({
    ...instances,
    async resume(_id, { signal }) {
      await once(signal, 'abort')
      throw signal.reason
    },
  }))
  expect((await node.databases()).length).toBeGreaterThan(0)
  const { id } = await platform.createDatabase('next')
  for (const one of [...made, { id }]) await platform.removeDatabase(one.id)
  expect(await node.databases()).toEqual([])
}, 60_000)

test('a node without a heartbeat for a day is forgotten when another starts, unless it has databases or backups', async () => {
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
