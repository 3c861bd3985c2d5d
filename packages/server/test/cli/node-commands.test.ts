import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { announceNode, forgetNodes, nodesWithRoom } from '../../src/databases/node-sql.ts'
import { newId } from '../../src/lib/ids.ts'
import { startApi, type TestApi } from '../kit/installation.ts'
import { bridgeTo, keyhookHere } from '../kit/processes.ts'

/** The commands on rows alone. `databases/moves.long.test.ts` moves real databases between real nodes. */
let api: TestApi
let environment: Record<string, string>
let cut: () => Promise<void>
beforeAll(async () => {
  const masterKey = randomBytes(32).toString('base64')
  api = await startApi({ KEYHOOK_MASTER_KEY: masterKey })
  const bridge = await bridgeTo(api.target, { keep: true })
  cut = bridge.cut
  environment = { DATABASE_URL: bridge.url, KEYHOOK_MASTER_KEY: masterKey }
})
afterAll(async () => {
  await cut()
  await api.close()
})

const run = (...args: string[]) => keyhookHere(['node', ...args], environment)

const announce = (id: string, store: string | null) =>
  announceNode(api.db, id, {
    databasesMax: 3,
    prices: { currency: 'EUR', hourPriceMinor: 1 },
    host: 'db.test',
    store,
    up: null,
  })

const silence = (id: string, seconds: number) =>
  api.db`update keyhook.nodes set seen_at = clock_timestamp() - make_interval(secs => ${seconds}) where id = ${id}`

const withRoom = async () => (await api.db.begin((tx) => nodesWithRoom(tx, 60))).map(({ id }) => id)

test('a node is drained and forgotten only if another one has its archives', async () => {
  await announce('alone', 'directory a')
  await announce('other', 'directory b')
  await announce('without-log', null)
  await silence('alone', 120)
  for (const command of ['drain', 'forget']) {
    const refused = await run(command, 'alone')
    expect([refused.code, refused.stderr]).toEqual([
      2,
      expect.stringContaining('No other active node can read the archives'),
    ])
  }
  const off = await run('drain', 'without-log')
  expect([off.code, off.stderr]).toEqual([2, expect.stringContaining('KEYHOOK_POINT_IN_TIME_RESTORE=off')])
  const unknown = await run('drain', 'nobody')
  expect([unknown.code, unknown.stderr]).toEqual([2, expect.stringContaining('There is no node nobody')])
  expect((await api.db`select 1 from keyhook.nodes where state <> 'active'`).length).toBe(0)
})

test('a drained node gets no databases until it is activated', async () => {
  await announce('first', 's3 bucket')
  await announce('second', 's3 bucket')
  expect(await withRoom()).toContain('first')
  const drained = await run('drain', 'first', '--json')
  expect([drained.code, JSON.parse(drained.stdout)]).toEqual([0, { node: 'first', state: 'draining', databases: 0 }])
  expect(await withRoom()).not.toContain('first')
  expect(await announce('first', 's3 bucket')).toBe(true)
  expect(await withRoom()).not.toContain('first')
  const listed = JSON.parse((await run('list', '--json')).stdout) as { id: string }[]
  expect(listed.find(({ id }) => id === 'first')).toMatchObject({
    state: 'draining',
    host: 'db.test',
    databases: 0,
    databases_max: 3,
    store: 's3 bucket',
  })
  expect((await run('list')).stdout).toContain('draining')
  expect((await run('activate', 'first')).code).toBe(0)
  expect(await withRoom()).toContain('first')
})

test('a forgotten node is forgotten for good, and a database without anything in the store fails', async () => {
  await announce('lost', 's3 bucket')
  await announce('second', 's3 bucket')
  const orgId = await api.organization()
  const { userId } = await api.person([{ orgId, role: 'owner' }])
  const databaseId = newId('db')
  await api.db`
    insert into keyhook.databases (org_id, id, name, status, node, host, port, created_by)
    values (${orgId}, ${databaseId}, 'shop', 'available', 'lost', 'db.test', 1, ${userId})`
  const early = await run('forget', 'lost')
  expect([early.code, early.stderr]).toEqual([2, expect.stringContaining('The last heartbeat of')])
  await silence('lost', 61)
  const forgotten = await run('forget', 'lost', '--json')
  expect([forgotten.code, JSON.parse(forgotten.stdout)]).toEqual([
    0,
    { node: 'lost', state: 'forgotten', lost: [{ id: databaseId, archived_until: null }] },
  ])
  const [row] = await api.db`select status, failure from keyhook.databases where id = ${databaseId}`
  expect(row).toEqual({ status: 'failed', failure: 'Its node was lost, and there is no backup of it in the store.' })
  const audited =
    await api.db`select action from keyhook.audit_entries where org_id = ${orgId} and target_id = ${databaseId}`
  expect(audited).toEqual([{ action: 'database.lost' }])
  // Its heartbeat is refused, its row stays, and nothing makes it active again.
  expect(await announce('lost', 's3 bucket')).toBe(false)
  await silence('lost', 1e6)
  expect(await forgetNodes(api.db, 86_400)).not.toContain('lost')
  const again = await run('activate', 'lost')
  expect([again.code, again.stderr]).toEqual([2, expect.stringContaining('forgotten and cannot be activated again')])
})
