import { readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createS3Store } from '../../src/archives/s3-store.ts'
import type { Database } from '../../src/db/database.ts'
import type { DatabaseBody } from '../databases/support/customer.ts'
import { createKillable, type Killable } from '../databases/support/killable.ts'
import { s3Settings } from '../databases/support/s3-settings.ts'
import { customerSql } from '../kit/customer-sql.ts'
import { type S3Server, s3Missing, s3Program, startS3Server } from '../kit/s3-server.ts'
import { until } from '../kit/until.ts'

/** The real program with its backups in a bucket of a real S3 server: killed in the middle, and with objects that were changed. */
describe.skipIf(s3Program === null)(s3Program === null ? s3Missing : 'backups on a real S3 server', () => {
  let server: S3Server
  let keyhook: Killable
  let source: DatabaseBody & { password: string }
  const store = () => createS3Store({ ...server.options, prefix: 'installation' })
  const objects = async () => (await Array.fromAsync(store().list(''))).map(({ name }) => name)
  async function query<T>(database: DatabaseBody, password: string, run: (sql: Database) => Promise<T>): Promise<T> {
    const sql = customerSql(database.connection_string!, password)
    try {
      return await run(sql)
    } finally {
      await sql.end({ timeout: 1 })
    }
  }

  beforeAll(async () => {
    server = await startS3Server()
    keyhook = await createKillable(s3Settings(server))
    await keyhook.start()
    source = await keyhook.createDatabase('source')
    // Random text, so that an archive has several parts.
    await query(
      source,
      source.password,
      (sql) => sql`create table t as select md5(random()::text) from generate_series(1, 400000)`,
    )
  }, 120_000)
  afterAll(async () => {
    await keyhook?.remove()
    await server?.close()
  }, 60_000)

  test('a backup whose process is killed during the upload completes after the restart, with one object and no parts left', async () => {
    for (const step of ['backup.copying_wal', 'backup.verifying']) {
      const before = await objects()
      await keyhook.killedAt(step, () => keyhook.askForBackup(source.id))
      await keyhook.start()
      await keyhook.settled()
      const [backup] = await keyhook.get<{ id: string; status: string }[]>('/backups')
      expect(backup, step).toMatchObject({ status: 'completed' })
      const added = (await objects()).filter((name) => !before.includes(name))
      expect(added, step).toEqual([`backups/${source.id}/${backup!.id}.tar.zst.age`])
      expect(await Array.fromAsync(store().unfinished('')), step).toEqual([])
    }
  }, 180_000)

  test('a restore whose process is killed completes after the restart, with every row', async () => {
    const backup = await keyhook.takeBackup(source.id)
    let made: { database: DatabaseBody & { password: string } } | undefined
    await keyhook.killedAt('restore.recovering', async () => {
      made = (
        await keyhook.request<{ database: DatabaseBody & { password: string } }>(`/backups/${backup.id}/restore`, {
          body: { name: 'copy' },
        })
      ).body
    })
    await keyhook.start()
    await keyhook.settled()
    const copy = await keyhook.get<DatabaseBody>(`/databases/${made!.database.id}`)
    expect(copy).toMatchObject({ status: 'available' })
    const counted = await query(copy, made!.database.password, (sql) => sql`select count(*)::int as n from t`)
    expect(counted).toEqual([{ n: 400_000 }])
  }, 180_000)

  test('changed, shortened and swapped objects are not restored, and leave no files', async () => {
    const other = await keyhook.createDatabase('other')
    const [backup, foreign] = [await keyhook.takeBackup(source.id), await keyhook.takeBackup(other.id)]
    const pathOf = (databaseId: string, id: string) =>
      join(server.bucketPath, 'installation', 'backups', databaseId, `${id}.tar.zst.age`)
    const path = pathOf(source.id, backup.id)
    const archive = await readFile(path)
    const flipped = Buffer.from(archive)
    flipped[archive.length >> 1]! ^= 1
    for (const content of [flipped, archive.subarray(0, -100), await readFile(pathOf(other.id, foreign.id))]) {
      await writeFile(`${path}.new`, content)
      await rename(`${path}.new`, path)
      const { restore, database } = await keyhook.restoreBackup(backup.id, 'tampered')
      expect(restore).toMatchObject({ status: 'failed', failure: expect.stringContaining('The archive is damaged') })
      expect((await keyhook.inventory()).directories).not.toContain(database.id)
    }
  }, 180_000)

  test('without its store a backup fails with a reason, and the database goes on', async () => {
    await server.stop()
    const asked = await keyhook.askForBackup(source.id)
    const failed = await until(
      () => keyhook.get<{ status: string; failure: string | null }>(`/backups/${asked.id}`),
      (one) => one.status === 'failed',
    )
    expect(failed.failure).toBe('The store of backups cannot be used now.')
    expect(await query(source, source.password, (sql) => sql`select 1 as up`)).toEqual([{ up: 1 }])
  }, 180_000)
})
