import { randomBytes } from 'node:crypto'
import { readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { takeoverAction } from '../../src/databases/dead-nodes.ts'
import { createInstallation, withoutLog } from '../kit/installation.ts'
import { bridgeTo } from '../kit/processes.ts'
import { until } from '../kit/until.ts'
import { type BackupBody, clientOf, type DatabaseBody } from './support/customer.ts'
import { archivesIn, namesIn, portRange, postmastersIn, scratchFolder, serveCustomer } from './support/platform.ts'
import { createProgram, inTime } from './support/program.ts'

/*
 * Two nodes: two processes of the real program with a data directory each, on one PostgreSQL. One of them is killed in the
 * middle of a job.
 */
type Fleet = Awaited<ReturnType<typeof startFleet>>
type Member = Fleet['nodes'][number]
let fleet: Fleet
beforeAll(async () => {
  fleet = await startFleet()
})
afterAll(() => fleet.close())

async function startFleet() {
  const masterKey = randomBytes(32).toString('base64')
  const installation = await createInstallation({ KEYHOOK_MASTER_KEY: masterKey })
  const bridge = await bridgeTo(installation.target, { keep: true })
  const customer = await serveCustomer(installation)
  const shared = {
    DATABASE_URL: bridge.url,
    KEYHOOK_MASTER_KEY: masterKey,
    KEYHOOK_NODE_PATIENCE_SECONDS: '6',
    ...withoutLog,
  }
  const nodes = await Promise.all([member(shared), member(shared)])
  await Promise.all(nodes.map(({ program }) => program.start()))
  return {
    ...customer,
    nodes,
    async close() {
      for (const { program, folder } of nodes) {
        await program.stop()
        await rm(folder, { recursive: true, force: true })
      }
      await customer.close()
      await bridge.cut()
      await installation.close()
    },
  }
}

async function member(shared: Record<string, string>) {
  const folder = await scratchFolder()
  const dataDir = join(folder, 'data')
  const own = { KEYHOOK_DATA_DIR: dataDir, KEYHOOK_DATABASES_PORTS: portRange() }
  const program = createProgram({ folder, environment: { ...shared, ...own }, args: ['--role', 'jobs'] })
  return { folder, program, home: join(dataDir, 'databases'), archives: join(dataDir, 'archives') }
}

const other = (one: Member): Member => fleet.nodes.find((node) => node !== one)!

/** Kills the node that reaches this step first; the other one goes on. */
async function killFirstAt(step: string, act: () => Promise<unknown>): Promise<Member> {
  for (const { program } of fleet.nodes) await program.failAt(step)
  await act()
  const ends = fleet.nodes.map(async (node) => [node, await node.program.ended] as const)
  const [dead, how] = await inTime(Promise.race(ends), `killed at ${step}`)
  await other(dead).program.forgetFailpoint()
  expect(how).toBe('SIGKILL')
  return dead
}

const eventTypesAbout = async (key: string, id: string) => (await fleet.eventsAbout(key, id)).map((event) => event.type)
const clustersOn = async ({ home }: Member) => (await postmastersIn(home)).map((one) => one.cluster.split('/').at(-2)!)
const holderOf = async (id: string): Promise<Member> => {
  for (const node of fleet.nodes) if ((await clustersOn(node)).includes(id)) return node
  throw new Error(`${id} runs nowhere`)
}
const isFrozen = async ({ program }: Member) => {
  const stat = await readFile(`/proc/${program.pid}/stat`, 'utf8')
  return stat.split(') ')[1]!.startsWith('T')
}
const filesRemoved = (id: string, node: Member) =>
  until(
    async () => [...(await namesIn(node.home)), ...(await clustersOn(node))],
    (names) => !names.some((name) => name.startsWith(id)),
  )

test('a database that a killed node was creating is created once by the other node, and its files are removed from the first', async () => {
  let asked: DatabaseBody
  const dead = await killFirstAt('provision.setting_password', async () => {
    asked = await fleet.askForDatabase('rescued')
  })
  const database = await fleet.settledDatabase(asked!.id)
  expect(database).toMatchObject({ status: 'available', failure: null })
  const client = clientOf({ ...database, password: asked!.password! })
  await client`create table kept as select 1 as n`
  expect(await clustersOn(other(dead))).toEqual([database.id])
  // The server of the killed node runs until that node is started again.
  expect(await clustersOn(dead)).toEqual([database.id])
  await dead.program.start()
  await filesRemoved(database.id, dead)
  expect(await client`select n from kept`).toEqual([{ n: 1 }])
  expect(await eventTypesAbout('database_id', database.id)).toEqual(['database.created'])
}, 60_000)

test('a database that a killed node was placing is placed by the other node', async () => {
  let asked: DatabaseBody
  const dead = await killFirstAt('place.settling', async () => {
    asked = await fleet.askForDatabase('placed')
  })
  expect(await fleet.settledDatabase(asked!.id)).toMatchObject({ status: 'available' })
  expect(await clustersOn(other(dead))).toContain(asked!.id)
  expect(await eventTypesAbout('database_id', asked!.id)).toEqual(['database.created'])
  await dead.program.start()
}, 60_000)

test('a node that was only frozen loses its database to the other node, and removes the files that it created', async () => {
  for (const { program } of fleet.nodes) await program.failAt('provision.setting_password', 'SIGSTOP')
  const frozen = async () => {
    const states = await Promise.all(fleet.nodes.map(async (node) => ((await isFrozen(node)) ? [node] : [])))
    return states.flat()
  }
  const asked = await fleet.askForDatabase('thawed')
  const [first] = await until(frozen, (nodes) => nodes.length === 1)
  await until(frozen, (nodes) => nodes.length === 2)
  // It continues with an instance that accepts connections, but the database belongs to the other node now.
  first!.program.signal('SIGCONT')
  await filesRemoved(asked.id, first!)
  expect((await fleet.get<DatabaseBody>(`/databases/${asked.id}`)).status).toBe('provisioning')
  other(first!).program.signal('SIGCONT')
  expect(await fleet.settledDatabase(asked.id)).toMatchObject({ status: 'available' })
  expect(await clustersOn(other(first!))).toContain(asked.id)
  expect(await eventTypesAbout('database_id', asked.id)).toEqual(['database.created'])
}, 60_000)

test('a backup and a restore on a killed node fail after the configured patience; its databases run again when it is back', async () => {
  const database = await fleet.createDatabase('far')
  await clientOf(database)`create table kept as select 7 as n`
  const holder = await holderOf(database.id)
  const whole = await fleet.takeBackup(database.id)
  await holder.program.failAt('backup.copying')
  const backup = await fleet.askForBackup(database.id)
  expect(await inTime(holder.program.ended, 'killed')).toBe('SIGKILL')
  const asked = await fleet.askForRestore(whole.id, 'copy')

  const failure = 'The node that worked on it stopped and did not come back.'
  expect(await fleet.settledBackup(backup.id)).toMatchObject({ status: 'failed', failure, size_bytes: null })
  expect(await eventTypesAbout('backup_id', backup.id)).toEqual(['backup.failed'])
  const copy = await fleet.settledDatabase(asked.database.id)
  expect(copy).toMatchObject({ status: 'failed', failure })
  expect(await eventTypesAbout('database_id', copy.id)).toEqual(['database.failed'])
  expect(await fleet.settledRestore(asked.restore.id)).toMatchObject({ status: 'failed', failure })

  // A removal is promised, and the files exist until that node has removed them.
  await fleet.request(`/backups/${whole.id}`, { method: 'DELETE' })
  expect((await fleet.get<BackupBody>(`/backups/${whole.id}`)).status).toBe('deleting')
  await holder.program.start()
  await fleet.gone(`/backups/${whole.id}`)
  const back = await until(
    () => clientOf(database)`select n from kept`.catch(() => []),
    (rows) => rows.length === 1,
  )
  expect(back).toEqual([{ n: 7 }])
  expect(await archivesIn(holder.archives)).toEqual([])
  expect(await namesIn(holder.home)).not.toContain(copy.id)
  expect(await fleet.takeBackup(database.id)).toMatchObject({ status: 'completed' })
}, 60_000)

test('jobs that any node can do are taken over at once, jobs that need files wait, and removals wait for ever', () => {
  const dead = (deadSeconds: number, attemptsLeft = true) => ({ deadSeconds, attemptsLeft, patienceSeconds: 60 })
  expect(takeoverAction('database.provision', dead(5))).toBe('place_again')
  expect(takeoverAction('database.provision', dead(5, false))).toBe('fail')
  for (const kind of ['backup.take', 'restore.run'] as const) {
    expect(takeoverAction(kind, dead(59))).toBe('wait')
    expect(takeoverAction(kind, dead(61))).toBe('fail')
    expect(takeoverAction(kind, dead(5, false))).toBe('fail')
  }
  expect(takeoverAction('database.arrive', dead(5))).toBe('place_again')
  const onlyThere = ['database.leave', 'database.stay'] as const
  for (const kind of ['database.remove', 'database.discard', 'backup.remove', ...onlyThere] as const) {
    expect(takeoverAction(kind, dead(1e9))).toBe('wait')
    expect(takeoverAction(kind, dead(1e9, false))).toBe('wait')
  }
})
