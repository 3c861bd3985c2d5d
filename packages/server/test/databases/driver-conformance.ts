import { expect, test } from 'vitest'
import type { BackupOf } from '../../src/archives/backup-archives.ts'
import { scramVerifier } from '../../src/databases/database.ts'
import type { Address, DatabaseDriver } from '../../src/databases/drivers/driver.ts'
import { type DatabaseId, newId } from '../../src/lib/ids.ts'
import { StepFailure } from '../../src/lib/step-failure.ts'
import { customerSqlForTest } from '../kit/customer-sql.ts'

/**
 * The tests that every driver has to pass. `create` opens a driver without databases; `reopen` opens another one on the same
 * files or resources, as after a restart; `damage` makes a stored backup unreadable.
 */
export function driverConformance(
  name: string,
  create: () => Promise<{
    driver: DatabaseDriver
    reopen: () => Promise<DatabaseDriver>
    damage: (of: BackupOf) => Promise<void>
  }>,
): void {
  const never = new AbortController().signal
  const orgId = newId('org')

  const client = ({ host, port }: Address, password: string) =>
    customerSqlForTest(`postgres://app@${host}:${port}/app`, password)
  const newDatabase = async (password: string, signal = never) => ({
    orgId,
    passwordVerifier: await scramVerifier(password),
    signal,
  })
  const provision = async (driver: DatabaseDriver, id: DatabaseId, password: string) =>
    driver.provision(id, await newDatabase(password))
  const backUp = async (driver: DatabaseDriver, databaseId: DatabaseId) => {
    const of = { databaseId, backupId: newId('bak') }
    const stored = await driver.backup(of, { bytesMax: Number.POSITIVE_INFINITY, onProgress() {}, signal: never })
    return { ...of, ...stored }
  }
  const restoring = async (from: BackupOf & { sha256: string | null; keyId: string | null }, password: string) => ({
    ...(await newDatabase(password)),
    from,
    to: null,
    bytesMax: Number.POSITIVE_INFINITY,
    onProgress() {},
  })

  test(`${name}: a provisioned database accepts only its password, and provisioning can be repeated`, async () => {
    const { driver } = await create()
    const id = newId('db')
    const address = await provision(driver, id, 'first')
    await client(address, 'first')`create table t (n int)`
    await expect(client(address, 'wrong')`select 1`).rejects.toThrow('password')
    expect(await provision(driver, id, 'second')).toEqual(address)
    expect(await client(address, 'second')`select count(*)::int as n from t`).toEqual([{ n: 0 }])
    expect(await driver.existing()).toEqual([id])
  })

  test(`${name}: a removed database is gone, and removing can be repeated`, async () => {
    const { driver } = await create()
    const id = newId('db')
    const address = await provision(driver, id, 'secret')
    await driver.remove(id)
    await driver.remove(id)
    await driver.remove(newId('db'))
    expect(await driver.existing()).toEqual([])
    await expect(client(address, 'secret')`select 1`).rejects.toThrow()
    await expect(driver.resume(id, { signal: never })).rejects.toThrow()
  })

  test(`${name}: databases of a closed driver can be resumed by another, with their data and address`, async () => {
    const { driver, reopen } = await create()
    const id = newId('db')
    const address = await provision(driver, id, 'secret')
    await client(address, 'secret')`create table kept as select 7 as n`
    await driver.close()
    const next = await reopen()
    expect(await next.resume(id, { signal: never })).toEqual(address)
    expect(await client(address, 'secret')`select n from kept`).toEqual([{ n: 7 }])
  })

  test(`${name}: a restore has the data of the end of the backup and a new password, and does not change the source`, async () => {
    const { driver } = await create()
    const source = newId('db')
    const from = await provision(driver, source, 'old')
    await client(from, 'old')`create table kept as select generate_series(1, 10) as n`
    const backup = await backUp(driver, source)
    expect(backup.bytes).toBeGreaterThan(0)
    expect(await driver.existingBackups()).toEqual([backup.backupId])
    await client(from, 'old')`insert into kept values (11)`
    const copy = newId('db')
    const to = await driver.restore(copy, await restoring(backup, 'new'))
    expect(await client(to, 'new')`select count(*)::int as n from kept`).toEqual([{ n: 10 }])
    await expect(client(to, 'old')`select 1`).rejects.toThrow('password')
    expect(await client(from, 'old')`select count(*)::int as n from kept`).toEqual([{ n: 11 }])
    // Restoring can be repeated.
    expect(await driver.restore(copy, await restoring(backup, 'new'))).toEqual(to)
    await client(to, 'new')`insert into kept values (12)`
  })

  test(`${name}: a backup outlives its database, and a removed one cannot be restored`, async () => {
    const { driver } = await create()
    const source = newId('db')
    const from = await provision(driver, source, 'old')
    await client(from, 'old')`create table kept as select 7 as n`
    const backup = await backUp(driver, source)
    await driver.remove(source)
    const to = await driver.restore(newId('db'), await restoring(backup, 'new'))
    expect(await client(to, 'new')`select n from kept`).toEqual([{ n: 7 }])
    await driver.removeBackup(backup)
    await driver.removeBackup(backup)
    expect(await driver.existingBackups()).toEqual([])
    const late = newId('db')
    await expect(driver.restore(late, await restoring(backup, 'new'))).rejects.toMatchObject({ permanent: true })
    await driver.remove(late)
  })

  test(`${name}: a damaged backup is rejected, and what the restore created can be removed`, async () => {
    const { driver, damage } = await create()
    const source = newId('db')
    await provision(driver, source, 'old')
    const backup = await backUp(driver, source)
    await damage(backup)
    const id = newId('db')
    await expect(driver.restore(id, await restoring(backup, 'new'))).rejects.toBeInstanceOf(StepFailure)
    await driver.remove(id)
    expect(await driver.existing()).toEqual([source])
  })

  test(`${name}: a backup can be aborted, and the database goes on`, async () => {
    const { driver } = await create()
    const databaseId = newId('db')
    const address = await provision(driver, databaseId, 'secret')
    const controller = new AbortController()
    const of = { databaseId, backupId: newId('bak') }
    const aborted = driver.backup(of, {
      bytesMax: Number.POSITIVE_INFINITY,
      onProgress: () => controller.abort(),
      signal: controller.signal,
    })
    await expect(aborted).rejects.toThrow(/abort/i)
    await driver.removeBackup(of)
    expect(await driver.existingBackups()).toEqual([])
    expect(await client(address, 'secret')`select 1 as up`).toEqual([{ up: 1 }])
    // The aborted backup does not block the next one.
    expect((await backUp(driver, databaseId)).bytes).toBeGreaterThan(0)
  })
  test(`${name}: erasing leaves nothing of a database, and everything of another`, async () => {
    const { driver } = await create()
    const [gone, kept] = [newId('db'), newId('db')]
    for (const id of [gone, kept]) await provision(driver, id, 'secret')
    const backups = [await backUp(driver, gone), await backUp(driver, gone)]
    const other = await backUp(driver, kept)
    // One that the caller does not know.
    expect(await driver.erase(gone, [backups[0]!.backupId])).toBeGreaterThan(0)
    expect(await driver.existing()).toEqual([kept])
    expect(await driver.existingBackups()).toEqual([other.backupId])
    expect(await driver.erase(gone, [])).toBe(0)
  })
}
