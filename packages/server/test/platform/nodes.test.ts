import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { pino } from 'pino'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { composeJobQueue, composePlatformNode } from '../../src/compose.ts'
import { readConfig } from '../../src/config.ts'
import { DataDirectoryInUse } from '../../src/store/embedded/index.ts'
import {
  clientOf,
  createDatabase,
  gone,
  namesIn,
  type Platform,
  portRange,
  scratchFolder,
  startPlatform,
  takeBackup,
} from './support/platform.ts'

let platform: Platform
beforeAll(async () => {
  platform = await startPlatform({ environment: { KEYHOOK_DATABASES_PER_NODE_MAX: '1' } })
})
afterAll(() => platform.close())

const log = pino({ level: process.env.TEST_LOG ?? 'silent' })

/** Another machine: another data directory on the same shared PostgreSQL. */
async function otherNode() {
  const folder = await scratchFolder()
  const environment = { KEYHOOK_DATA_DIR: join(folder, 'data'), KEYHOOK_DATABASES_PORTS: portRange() }
  const installation = { ...platform, config: readConfig(environment) }
  const node = await composePlatformNode(installation, log, composeJobQueue(installation, log))
  await node.ready
  onTestFinished(async () => {
    await node.close()
    await rm(folder, { recursive: true, force: true })
  })
  return { home: join(folder, 'data/databases'), archives: join(folder, 'data/archives') }
}

test('a second process on one data directory is told who has it, and starts nothing', async () => {
  await expect(composePlatformNode(platform, log, composeJobQueue(platform, log))).rejects.toBeInstanceOf(
    DataDirectoryInUse,
  )
})

test('a database that does not fit on one node goes to another, and all work on it is done where it is', async () => {
  const here = await createDatabase(platform, 'here')
  expect(await namesIn(platform.home)).toEqual([here.id])
  const other = await otherNode()
  const there = await createDatabase(platform, 'there')
  expect(await namesIn(other.home)).toEqual([there.id])
  await clientOf(there)`create table t (n int)`
  const backup = await takeBackup(platform, there.id)
  expect(backup.status).toBe('completed')
  expect(await namesIn(other.archives)).toEqual([`${backup.id}.tar.zst`])
  expect(await namesIn(platform.archives)).toEqual([])
  await platform.request(`/databases/${there.id}`, { method: 'DELETE' })
  await gone(platform, `/databases/${there.id}`)
  await platform.request(`/backups/${backup.id}`, { method: 'DELETE' })
  await gone(platform, `/backups/${backup.id}`)
  expect(await namesIn(other.home)).toEqual([])
  expect(await namesIn(other.archives)).toEqual([])
  expect(await namesIn(platform.home)).toEqual([here.id])
})
