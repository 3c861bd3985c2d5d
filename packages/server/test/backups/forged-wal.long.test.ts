import { randomBytes } from 'node:crypto'
import { readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { zstdCompressSync } from 'node:zlib'
import { expect, onTestFinished, test } from 'vitest'
import { clientOf, type DatabaseBody, type RestoreBody } from '../databases/support/customer.ts'
import { type Platform, startPlatform } from '../databases/support/platform.ts'
import { until } from '../kit/until.ts'

type Windowed = DatabaseBody & { recovery_window: { from: string; to: string } | null }

async function open(encryption: 'off' | 'master-key'): Promise<Platform> {
  const platform = await startPlatform({
    KEYHOOK_POINT_IN_TIME_RESTORE: 'on',
    KEYHOOK_WAL_EVERY_SECONDS: '1',
    KEYHOOK_ARCHIVES_ENCRYPTION: encryption,
  })
  onTestFinished(() => platform.close())
  return platform
}

const segmentsOf = async (platform: Platform, id: string) => {
  const folder = join(platform.archives, 'wal', id)
  const names = (await readdir(folder).catch(() => [])).filter((name) => /^[0-9A-F]{24}\./.test(name)).sort()
  return names.map((name) => join(folder, name))
}

/** Commits a row and waits until a segment with it is stored: how often, so many segments after the base. */
async function written(platform: Platform, name: string, rows: number) {
  const source = await platform.createDatabase(name)
  const sql = clientOf(source)
  await sql`create table kept (n int)`
  const window = () => platform.get<Windowed>(`/databases/${source.id}`).then((found) => found.recovery_window)
  const untilKept = async () => {
    const [{ at }] = await sql<[{ at: Date }]>`select date_trunc('milliseconds', clock_timestamp()) as at`
    await until(window, (found) => found !== null && at <= new Date(found.to))
    return at
  }
  await untilKept()
  const before = (await segmentsOf(platform, source.id)).length
  let at = new Date()
  for (let n = 1; n <= rows; n++) {
    await sql`insert into kept values (${n})`
    at = await untilKept()
  }
  return { id: source.id, at, segments: (await segmentsOf(platform, source.id)).slice(before) }
}

async function restored(platform: Platform, id: string, to: Date) {
  const asked = { body: { name: 'then', to: to.toISOString() } }
  const { body } = await platform.request<{
    restore: RestoreBody
    database: DatabaseBody & { password: string }
  }>(`/databases/${id}/restore`, asked)
  const restore = await until(
    () => platform.get<RestoreBody>(`/restores/${body.restore.id}`),
    (one) => one.status !== 'running',
  )
  return {
    restore,
    database: { ...(await platform.settledDatabase(body.database.id)), password: body.database.password },
  }
}

const unreadable =
  'The stored write-ahead log cannot be read to its end: a part of it is damaged, or belongs to another database.'

test('a restore whose WAL was replaced fails with the reason, and does not lose commits', {
  timeout: 180_000,
}, async () => {
  const platform = await open('off')
  const [victim, thief] = [await written(platform, 'victim', 3), await written(platform, 'thief', 3)]
  const [, second, last] = victim.segments as [string, string, string]
  const replaced = async (path: string, content: Buffer) => {
    const original = await readFile(path)
    await writeFile(path, content)
    const { restore, database } = await restored(platform, victim.id, victim.at)
    await writeFile(path, original)
    expect([restore.status, restore.failure, database.status]).toEqual(['failed', unreadable, 'failed'])
  }
  const garbage = zstdCompressSync(randomBytes(16 * 1024 * 1024))
  await replaced(second, garbage)
  // Also the last one, where no later WAL shows that something is missing.
  await replaced(last, garbage)
  const foreign = (await segmentsOf(platform, thief.id)).find((path) =>
    path.endsWith(last.slice(last.lastIndexOf('/'))),
  )
  await replaced(last, await readFile(foreign!))

  const { restore, database } = await restored(platform, victim.id, victim.at)
  expect(restore.status).toBe('completed')
  expect(await clientOf(database)`select n from kept order by n`).toEqual([{ n: 1 }, { n: 2 }, { n: 3 }])
})

test('where the WAL is encrypted, a plain piece of another database is not replayed', {
  timeout: 120_000,
}, async () => {
  const platform = await open('master-key')
  const { id, at, segments } = await written(platform, 'victim', 2)
  const [first] = segments as [string]
  expect(first).toMatch(/\.zst\.age$/)
  const original = await readFile(first)
  await writeFile(first.replace(/\.age$/, ''), zstdCompressSync(randomBytes(16 * 1024 * 1024)))
  await rm(first)
  const { restore } = await restored(platform, id, at)
  expect([restore.status, restore.failure]).toEqual([
    'failed',
    'The archive is damaged: a part of the write-ahead log after the backup is missing.',
  ])
  await writeFile(first, original)
  const second = await restored(platform, id, at)
  expect(second.restore.status).toBe('completed')
  expect(await clientOf(second.database)`select n from kept order by n`).toEqual([{ n: 1 }, { n: 2 }])
})
