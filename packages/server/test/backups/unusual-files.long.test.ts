import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { symlink, unlink, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type BackupBody, clientOf, type DatabaseBody } from '../databases/support/customer.ts'
import { type Platform, startPlatform } from '../databases/support/platform.ts'
import { until } from '../kit/until.ts'

const run = promisify(execFile)

let platform: Platform
let source: DatabaseBody & { password: string }
beforeAll(async () => {
  platform = await startPlatform({ KEYHOOK_DATABASE_STORAGE_MAX: '128MB', KEYHOOK_POINT_IN_TIME_RESTORE: 'off' })
  source = await platform.createDatabase('source')
})
afterAll(() => platform.close())

/** How a backup ends while this is among the files of the database. */
async function backedUpWith(name: string, create: (path: string) => Promise<unknown>): Promise<BackupBody> {
  const path = join(platform.home, source.id, 'cluster', name)
  const remove = await create(path)
  try {
    const { body } = await platform.request<BackupBody>(`/databases/${source.id}/backups`, { method: 'POST' })
    return await platform.settledBackup(body.id)
  } finally {
    if (typeof remove === 'function') await remove()
    else await unlink(path)
  }
}

const sparse = (size: string) => async (path: string) => {
  await writeFile(path, '')
  await run('truncate', ['-s', size, path])
}
const socket = async (path: string) => {
  const server = createServer()
  await new Promise<void>((done, fail) => server.on('error', fail).listen(path, done))
  return () => new Promise((done) => server.close(done))
}
const foreign = /^The data directory has something that PostgreSQL did not make: \S+ is a link, a pipe or a socket,/

test('a backup that meets what is not a file of PostgreSQL fails, and says why', { timeout: 120_000 }, async () => {
  const cases: [string, (path: string) => Promise<unknown>, RegExp][] = [
    ['pipe', (path) => run('mkfifo', [path]), foreign],
    ['base/1/pipe', (path) => run('mkfifo', [path]), foreign],
    ['pg_wal/000000010000000000000001.pipe', (path) => run('mkfifo', [path]), foreign],
    ['backup_label', (path) => run('mkfifo', [path]), foreign],
    ['.s.PGSQL.1', socket, foreign],
    ['global/link', (path) => symlink('/etc/passwd', path), foreign],
    ['base/1/99999', sparse('15T'), /base\/1\/99999 has more than 1 GiB/],
    ['pg_xact/99999', sparse('15T'), /^Its files have more than 154 MiB, which is beyond the storage limit\.$/],
  ]
  for (const [name, create, failure] of cases) {
    const backup = await backedUpWith(name, create)
    expect([name, backup.status, backup.failure]).toEqual([name, 'failed', expect.stringMatching(failure)])
  }
  expect(await platform.takeBackup(source.id)).toMatchObject({ status: 'completed' })
})

test('a restore of more than the storage limit fails with the reason', { timeout: 120_000 }, async () => {
  const sql = clientOf(source)
  await sql`create table filler (content bytea)`
  await sql`alter table filler alter column content set storage external`
  // The sparse files of the test before may have made the database read-only, until they are measured again.
  for (let n = 0; n < 60; n++) {
    await until(() =>
      sql`insert into filler values (${randomBytes(1024 * 1024)})`.then(
        () => true,
        () => false,
      ),
    )
  }
  await sql`checkpoint`.catch(() => {})
  const backup = await platform.takeBackup(source.id)
  expect(backup.status).toBe('completed')
  await platform.db`update keyhook.databases set storage_limit_bytes = ${32 * 1024 * 1024} where id = ${source.id}`
  const { restore, database } = await platform.restoreBackup(backup.id, 'copy')
  const failure = 'Its files have more than 38 MiB, which is beyond the storage limit.'
  expect([restore.status, restore.failure, database.status]).toEqual(['failed', failure, 'failed'])
})
