import { expect, test } from 'vitest'
import { scramVerifier } from '../../src/domain/scram.ts'
import { type DatabaseId, newId } from '../../src/kernel/ids.ts'
import { type Address, DamagedArchive, type DatabaseDriver } from '../../src/platform/driver.ts'
import { customerSqlForTest } from '../support/customer-sql.ts'

/**
 * The tests that every driver has to pass. `create` opens a driver without databases; `reopen` opens another one on the same
 * files, as after a restart.
 */
export function driverConformance(
  name: string,
  create: () => Promise<{ driver: DatabaseDriver; reopen: () => Promise<DatabaseDriver> }>,
): void {
  const never = new AbortController().signal

  const client = ({ host, port }: Address, password: string) =>
    customerSqlForTest(`postgres://app@${host}:${port}/app`, password)
  const provision = async (driver: DatabaseDriver, id: DatabaseId, password: string) =>
    driver.provision(id, { passwordVerifier: await scramVerifier(password), signal: never })

  async function archiveOf(driver: DatabaseDriver, id: DatabaseId): Promise<Buffer> {
    const chunks: Uint8Array[] = []
    for await (const chunk of driver.backup(id, { onProgress() {}, signal: never })) chunks.push(chunk)
    return Buffer.concat(chunks)
  }
  async function* stream(archive: Buffer): AsyncGenerator<Uint8Array> {
    yield archive
  }

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
    await next.resume(id, { signal: never })
    expect(await client(address, 'secret')`select n from kept`).toEqual([{ n: 7 }])
  })

  test(`${name}: a restore has the data of the end of the backup and a new password, and does not change the source`, async () => {
    const { driver } = await create()
    const source = newId('db')
    const from = await provision(driver, source, 'old')
    await client(from, 'old')`create table kept as select generate_series(1, 10) as n`
    const archive = await archiveOf(driver, source)
    await client(from, 'old')`insert into kept values (11)`
    const copy = newId('db')
    const restoring = { passwordVerifier: await scramVerifier('new'), onProgress() {}, signal: never }
    const to = await driver.restore(copy, { ...restoring, archive: stream(archive) })
    expect(await client(to, 'new')`select count(*)::int as n from kept`).toEqual([{ n: 10 }])
    await expect(client(to, 'old')`select 1`).rejects.toThrow('password')
    expect(await client(from, 'old')`select count(*)::int as n from kept`).toEqual([{ n: 11 }])
    // Restoring can be repeated.
    expect(await driver.restore(copy, { ...restoring, archive: stream(archive) })).toEqual(to)
    await client(to, 'new')`insert into kept values (12)`
  })

  test(`${name}: a damaged archive is rejected, and its files can be removed`, async () => {
    const { driver } = await create()
    const source = newId('db')
    await provision(driver, source, 'old')
    const archive = await archiveOf(driver, source)
    archive[archive.length >> 1]! ^= 0xff
    const id = newId('db')
    const restoring = { passwordVerifier: await scramVerifier('new'), onProgress() {}, signal: never }
    await expect(driver.restore(id, { ...restoring, archive: stream(archive) })).rejects.toBeInstanceOf(DamagedArchive)
    await driver.remove(id)
    expect(await driver.existing()).toEqual([source])
  })

  test(`${name}: a backup can be aborted, and the database goes on`, async () => {
    const { driver } = await create()
    const id = newId('db')
    const address = await provision(driver, id, 'secret')
    const controller = new AbortController()
    const read = async () => {
      for await (const _chunk of driver.backup(id, {
        onProgress: () => controller.abort(),
        signal: controller.signal,
      }));
    }
    await expect(read()).rejects.toThrow(/abort/i)
    expect(await client(address, 'secret')`select 1 as up`).toEqual([{ up: 1 }])
    // The aborted backup does not block the next one.
    expect((await archiveOf(driver, id)).length).toBeGreaterThan(0)
  })
}
