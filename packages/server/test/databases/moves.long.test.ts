import { randomBytes } from 'node:crypto'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { nodeOf as nameOf } from '../../src/databases/drivers/local/home.ts'
import type { Database } from '../../src/db/database.ts'
import { customerSql } from '../kit/customer-sql.ts'
import { createInstallation } from '../kit/installation.ts'
import { bridgeTo, keyhook } from '../kit/processes.ts'
import { until } from '../kit/until.ts'
import type { DatabaseBody } from './support/customer.ts'
import { namesIn, portRange, postmastersIn, scratchFolder, serveCustomer } from './support/platform.ts'
import { createProgram, inTime } from './support/program.ts'

/*
 * Two nodes: two processes of the real program with a data directory each and one directory of archives, on one PostgreSQL.
 * Databases are moved between them, and processes are killed on the way.
 */
type Fleet = Awaited<ReturnType<typeof startFleet>>
type Member = Fleet['nodes'][number]
let fleet: Fleet
beforeAll(async () => {
  fleet = await startFleet()
}, 400_000)
afterAll(() => fleet?.close())

async function startFleet() {
  const masterKey = randomBytes(32).toString('base64')
  const installation = await createInstallation({ KEYHOOK_MASTER_KEY: masterKey })
  const bridge = await bridgeTo(installation.target, { keep: true })
  const customer = await serveCustomer(installation)
  const archives = await scratchFolder()
  const shared = {
    DATABASE_URL: bridge.url,
    KEYHOOK_MASTER_KEY: masterKey,
    KEYHOOK_ARCHIVES_DIR: join(archives, 'archives'),
    KEYHOOK_WAL_EVERY_SECONDS: '1',
  }
  const nodes = [await member(shared), await member(shared)]
  const { db } = installation
  await Promise.all(nodes.map(({ program }) => program.start()))
  return {
    ...customer,
    db,
    nodes,
    /** A command of the operator. */
    command: (...args: string[]) =>
      keyhook(['node', ...args], {
        DATABASE_URL: bridge.url,
        KEYHOOK_MASTER_KEY: masterKey,
        KEYHOOK_DATA_DIR: archives,
      }),
    async close() {
      for (const { program, folder, home } of nodes) {
        await program.stop()
        for (const { pid } of await postmastersIn(home)) process.kill(pid, 'SIGKILL')
        await rm(folder, { recursive: true, force: true })
      }
      await customer.close()
      await bridge.cut()
      await installation.close()
      await rm(archives, { recursive: true, force: true })
    },
  }
}

async function member(shared: Record<string, string>) {
  const folder = await scratchFolder()
  const dataDir = join(folder, 'data')
  const own = { KEYHOOK_DATA_DIR: dataDir, KEYHOOK_DATABASES_PORTS: portRange() }
  const program = createProgram({ folder, environment: { ...shared, ...own }, args: ['--role', 'jobs'] })
  return { folder, program, home: join(dataDir, 'databases'), id: (await nameOf(dataDir)).node }
}

const other = (one: Member): Member => fleet.nodes.find((node) => node !== one)!
const nodeOf = async (id: string): Promise<Member> => {
  const [row] = await fleet.db<{ node: string }[]>`select node from keyhook.databases where id = ${id}`
  return fleet.nodes.find((node) => node.id === row!.node)!
}

type Windowed = DatabaseBody & { recovery_window: { from: string; to: string } | null }
type Made = DatabaseBody & { password: string }

/** With WAL in the store, from which it can be restored elsewhere. */
async function newDatabase(name: string): Promise<Made> {
  const made = await fleet.createDatabase(name)
  await until(
    () => fleet.get<Windowed>(`/databases/${made.id}`),
    ({ recovery_window: window }) => window !== null,
  )
  return made
}

/** By the address that it has now, with the password that it had at first. */
async function withDatabase<T>({ id, password }: Made, work: (sql: Database) => Promise<T>): Promise<T> {
  const { connection_string: url } = await fleet.get<DatabaseBody>(`/databases/${id}`)
  const sql = customerSql(url!, password)
  try {
    return await work(sql)
  } finally {
    await sql.end({ timeout: 1 })
  }
}

const rowsOf = (made: Made) =>
  withDatabase(made, async (sql) => (await sql<{ n: number }[]>`select n from t order by n`).map(({ n }) => n))

/** Inserts numbers, each in a transaction of its own, until the database does not accept one. */
async function startWriter(made: Made) {
  const sql = customerSql(made.connection_string!, made.password)
  onTestFinished(() => sql.end({ timeout: 1 }))
  await sql`create table t (n int primary key)`
  const acknowledged: number[] = []
  const ended = (async () => {
    for (let n = 1; ; n += 1) {
      await sql`insert into t values (${n})`
      acknowledged.push(n)
    }
  })().catch(() => {})
  return { acknowledged, ended }
}

const runsOnlyOn = async (node: Member, id: string) => {
  const running = async (one: Member) => (await postmastersIn(one.home)).some(({ cluster }) => cluster.includes(id))
  await until(
    async () => [await running(node), await running(other(node))],
    ([here, there]) => here! && !there!,
  )
  await until(
    () => namesIn(other(node).home),
    (names) => !names.some((name) => name.startsWith(id)),
  )
}

test('a drained node gives away a database under load, with every committed row, and gets no new one', async () => {
  const made = await newDatabase('shop')
  const [from, to] = [await nodeOf(made.id), other(await nodeOf(made.id))]
  const writer = await startWriter(made)
  await until(
    async () => writer.acknowledged.length,
    (count) => count > 50,
  )
  const before = await fleet.get<Windowed>(`/databases/${made.id}`)
  const drained = await fleet.command('drain', from.id, '--json')
  expect([drained.code, drained.stderr]).toEqual([0, ''])
  expect(JSON.parse(drained.stdout)).toEqual({ node: from.id, state: 'draining', databases: 0 })
  // The old copy accepts nothing, and so nothing that was acknowledged is missing.
  await writer.ended
  const rows = await rowsOf(made)
  expect(rows.slice(0, writer.acknowledged.length)).toEqual(writer.acknowledged)
  // The last one may have been committed without an answer.
  expect(rows.length - writer.acknowledged.length).toBeLessThanOrEqual(1)
  expect(await nodeOf(made.id)).toBe(to)
  await runsOnlyOn(to, made.id)
  expect((await fleet.eventsAbout('database_id', made.id)).map(({ type }) => type)).toEqual(['database.created'])

  // The WAL goes on: times before the move can still be restored.
  await withDatabase(made, (sql) => sql`insert into t values (0)`)
  const [{ now }] = await withDatabase(made, (sql) => sql<[{ now: Date }]>`select clock_timestamp() as now`)
  const after = await until(
    () => fleet.get<Windowed>(`/databases/${made.id}`),
    ({ recovery_window: window }) => new Date(window!.to) > now,
  )
  expect(after.recovery_window!.from).toBe(before.recovery_window!.from)

  const next = await fleet.createDatabase('next')
  expect(await nodeOf(next.id)).toBe(to)
  await fleet.removeDatabase(next.id)
  expect((await fleet.command('activate', from.id)).code).toBe(0)
  await fleet.removeDatabase(made.id)
}, 400_000)

test('a node that is killed during a move goes on with it after its restart, and no row is lost', async () => {
  const made = await newDatabase('shop')
  await withDatabase(made, (sql) => sql`create table t (n int primary key)`)
  let count = 0
  for (const [who, step] of [
    ['old', 'leave.archiving'],
    ['old', 'leave.settled'],
    ['new', 'arrive.restoring'],
    ['new', 'arrive.settling'],
  ] as const) {
    count += 1
    await withDatabase(made, (sql) => sql`insert into t values (${count})`)
    const from = await nodeOf(made.id)
    const killed = who === 'old' ? from : other(from)
    await killed.program.failAt(step)
    const draining = fleet.command('drain', from.id, '--json')
    expect(await inTime(killed.program.ended, `killed at ${step}`, 120_000), step).toBe('SIGKILL')
    await killed.program.start()
    const drained = await draining
    expect([drained.code, drained.stderr], step).toEqual([0, ''])
    expect(await rowsOf(made), step).toEqual(Array.from({ length: count }, (_, i) => i + 1))
    expect(await nodeOf(made.id), step).toBe(other(from))
    await runsOnlyOn(other(from), made.id)
    expect((await fleet.command('activate', from.id)).code, step).toBe(0)
  }
  await fleet.removeDatabase(made.id)
}, 600_000)

test('databases of a lost node are restored from the store, and the node never starts its copies again', async () => {
  const kept = await newDatabase('kept')
  const lost = await nodeOf(kept.id)
  const without = await newDatabase('without')
  expect(await fleet.command('drain', other(lost).id).then(({ code }) => code)).toBe(0)
  await withDatabase(kept, (sql) => sql`create table t as select 7 as n`)
  const [{ now }] = await withDatabase(kept, (sql) => sql<[{ now: Date }]>`select clock_timestamp() as now`)
  await until(
    () => fleet.get<Windowed>(`/databases/${kept.id}`),
    ({ recovery_window: window }) => new Date(window!.to) > now,
  )
  expect((await fleet.command('activate', other(lost).id)).code).toBe(0)
  const early = await fleet.command('forget', lost.id)
  expect([early.code, early.stderr]).toEqual([2, expect.stringContaining('The last heartbeat of')])

  // Without a backup in the store.
  await fleet.db`update keyhook.backups set status = 'deleted' where database_id = ${without.id}`
  lost.program.signal('SIGKILL')
  await lost.program.ended
  // Its machine is gone, with all processes.
  for (const { pid } of await postmastersIn(lost.home)) process.kill(pid, 'SIGKILL')
  const forgotten = await fleet.command('forget', lost.id, '--force', '--json')
  expect([forgotten.code, forgotten.stderr]).toEqual([0, ''])
  const report = JSON.parse(forgotten.stdout) as { lost: { id: string; archived_until: string | null }[] }
  expect(report.lost.find(({ id }) => id === without.id)).toEqual({ id: without.id, archived_until: null })
  expect(new Date(report.lost.find(({ id }) => id === kept.id)!.archived_until!) > now).toBe(true)
  expect(await rowsOf(kept)).toEqual([7])
  expect(await nodeOf(kept.id)).toBe(other(lost))
  expect(await fleet.get<DatabaseBody>(`/databases/${without.id}`)).toMatchObject({
    status: 'failed',
    failure: 'Its node was lost, and there is no backup of it in the store.',
  })

  // It comes back: it refuses to start, runs nothing and leaves its files to the operator.
  await expect(lost.program.start()).rejects.toThrow('ended before it was ready')
  expect(await postmastersIn(lost.home)).toEqual([])
  expect(await namesIn(lost.home)).toEqual(expect.arrayContaining([kept.id, without.id]))
  expect(await rowsOf(kept)).toEqual([7])
}, 400_000)
