import { execFile } from 'node:child_process'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { connect } from '../../src/db/database.ts'
import { superuser } from '../../src/postgres/cluster.ts'
import { type BackupBody, clientOf, type DatabaseBody, type RestoreBody } from '../databases/support/customer.ts'
import { ledgerSums, prepareLedger, startLoad, untilCommitted } from '../databases/support/load.ts'
import { type Platform, startPlatform } from '../databases/support/platform.ts'
import { holdPublishers } from '../kit/hold-publishers.ts'
import { until } from '../kit/until.ts'

let platform: Platform
let source: DatabaseBody & { password: string }
beforeAll(async () => {
  platform = await startPlatform()
  source = await platform.createDatabase('source')
})
afterAll(() => platform.close())

/** Calls back when a step of the platform starts in this process. */
function onStep(wanted: string, run: () => void): void {
  const listen = (message: unknown) => {
    if ((message as { name: string }).name === wanted) run()
  }
  subscribe('keyhook.platform.step', listen)
  onTestFinished(() => void unsubscribe('keyhook.platform.step', listen))
}

/** Checks every page of every table and index, as superuser over the instance's socket. */
async function amcheck(database: DatabaseBody): Promise<number> {
  const host = join(platform.home, database.id, 'cluster')
  const target = { host, port: database.port!, user: superuser, password: '', database: 'app' }
  const sql = connect(target, { name: 'amcheck', connectionsMax: 1 })
  onTestFinished(() => sql.end({ timeout: 1 }))
  // Customers are not offered this one.
  await sql`set extension_control_path = '$system'`
  await sql`create extension if not exists amcheck`
  const indexes = await sql`
    select bt_index_parent_check(c.oid, true, true) from pg_class c join pg_am a on a.oid = c.relam
    where c.relkind = 'i' and a.amname = 'btree' and c.relpersistence = 'p'`
  const damage = await sql`
    select c.relname, v.* from pg_class c cross join lateral verify_heapam(c.oid) v
    where c.relkind in ('r', 't', 'm') and c.relpersistence = 'p'`
  expect(damage).toEqual([])
  return indexes.length
}

test('a backup taken under writes restores to a consistent state with every commit acknowledged before it ended', async () => {
  const sql = clientOf(source, 6)
  await prepareLedger(sql)
  const load = startLoad(sql, 6)
  await untilCommitted(load, 50)
  const asked = load.committed()
  let beforeItEnded: number[] = []
  onStep('backup.stopping', () => {
    beforeItEnded = load.acknowledged()
  })
  const backup = await platform.takeBackup(source.id)
  // Clients wrote during the backup.
  expect(beforeItEnded.length).toBeGreaterThan(asked)
  await untilCommitted(load, load.committed() + 50)
  expect(backup).toMatchObject({ status: 'completed', failure: null })
  expect(backup.bytes_done).toBe(backup.bytes_total)
  expect(backup.size_bytes).toBeGreaterThan(0)

  const { restore, database } = await platform.restoreBackup(backup.id)
  await load.stop()
  expect(restore).toMatchObject({ status: 'completed', failure: null })
  expect(restore.bytes_done).toBe(restore.bytes_total)
  const copy = clientOf(database)
  const restored = new Set((await copy<{ n: number }[]>`select n::int from history`).map((row) => row.n))
  expect(beforeItEnded.filter((row) => !restored.has(row))).toEqual([])
  const sums = await ledgerSums(copy)
  expect(sums.tellers).toBe(sums.accounts)
  expect(sums.branches).toBe(sums.accounts)
  expect(sums.history).toBe(sums.accounts)
  expect(await amcheck(database)).toBeGreaterThan(100)
  // The copy accepts writes.
  await copy`insert into history (delta) values (0)`
  const original = await ledgerSums(sql)
  expect(original.rows).toBe(load.committed())
  expect(original.history).toBe(original.accounts)

  expect(await platform.eventsAbout('backup_id', backup.id)).toEqual([
    { type: 'backup.completed', data: { backup_id: backup.id, database_id: source.id, size_bytes: backup.size_bytes } },
    { type: 'restore.completed', data: { restore_id: restore.id, backup_id: backup.id, database_id: database.id } },
  ])
  // There is no database.created: a receiver that counts both events would count the database twice.
  expect((await platform.eventsAbout('database_id', database.id)).map((event) => event.type)).toEqual([
    'restore.completed',
  ])
}, 60_000)

test('the same under the load of pgbench, if installed', async ({ skip }) => {
  const pgbench = '/usr/lib/postgresql/15/bin/pgbench'
  if (!existsSync(pgbench)) skip()
  const busy = await platform.createDatabase('busy')
  const address = busy.connection_string!.replace('verify-full', 'require')
  const env = { PGPASSWORD: busy.password, PATH: '/usr/bin:/bin' }
  const run = (...args: string[]) => promisify(execFile)(pgbench, [...args, address], { env })
  await run('-i', '-q')
  const running = new AbortController()
  const bench = promisify(execFile)(pgbench, ['-c', '4', '-T', '60', address], {
    env,
    signal: running.signal,
  }).catch(() => {})
  const sql = clientOf(busy)
  const written = async () => (await sql<[{ rows: number }]>`select count(*)::int as rows from pgbench_history`)[0].rows
  await until(written, (rows) => rows > 50)
  const before = await written()
  const backup = await platform.takeBackup(busy.id)
  expect(backup).toMatchObject({ status: 'completed' })
  expect(await written()).toBeGreaterThan(before)
  const { database } = await platform.restoreBackup(backup.id, 'bench copy')
  running.abort()
  await bench
  const [sums] = await clientOf(database)`
    select (select sum(abalance) from pgbench_accounts)::int as accounts, (select sum(tbalance) from pgbench_tellers)::int as tellers,
      (select sum(bbalance) from pgbench_branches)::int as branches, (select sum(delta) from pgbench_history)::int as history,
      (select count(*) from pgbench_history)::int >= ${before} as complete`
  const { accounts } = sums!
  expect(sums).toEqual({ accounts, tellers: accounts, branches: accounts, history: accounts, complete: true })
  expect(await amcheck(database)).toBeGreaterThan(100)
}, 60_000)

/** No outcome is settled without its event, so blocking publishers delays all outcomes. */
const delayOutcomes = () => holdPublishers(platform.db, platform.orgId)

test('a running backup and restore report their progress in bytes', async () => {
  const running = { status: 'running', bytes_done: expect.any(Number), bytes_total: expect.any(Number) }
  const settleBackup = await delayOutcomes()
  const body = await platform.askForBackup(source.id)
  const backing = await until(
    () => platform.request<BackupBody>(`/backups/${body.id}`).then((reply) => reply.body),
    (backup) => backup.bytes_done > 0,
  )
  expect(backing).toMatchObject(running)
  expect(backing.bytes_done).toBeLessThan(backing.bytes_total!)
  await settleBackup()
  const backup = await platform.settledBackup(body.id)
  expect(backup).toMatchObject({ status: 'completed', bytes_done: backup.bytes_total })
  expect(backup.bytes_total).toBeGreaterThanOrEqual(backing.bytes_total!)

  const settleRestore = await delayOutcomes()
  const asked = await platform.request<{ restore: RestoreBody }>(`/backups/${body.id}/restore`, { body: { name: 'n' } })
  const ofRestore = () =>
    platform.request<RestoreBody>(`/restores/${asked.body.restore.id}`).then((reply) => reply.body)
  const restoring = await until(ofRestore, (restore) => restore.bytes_done > 0)
  expect(restoring).toMatchObject({ ...running, bytes_total: backup.bytes_total })
  expect(restoring.bytes_done).toBeLessThan(restoring.bytes_total!)
  await settleRestore()
  const restore = await until(ofRestore, (one) => one.status !== 'running')
  expect(restore).toMatchObject({ status: 'completed', bytes_done: backup.bytes_total })
}, 60_000)
