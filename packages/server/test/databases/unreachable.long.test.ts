import { randomBytes } from 'node:crypto'
import { rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import type { Logger } from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import { composeHints } from '../../src/compose/dispatcher.ts'
import { composeInstances, composeJobQueue, composePlatformNode } from '../../src/compose/platform.ts'
import { warnOfNeighbours } from '../../src/databases/local-databases.ts'
import { newId } from '../../src/lib/ids.ts'
import { captureLog } from '../kit/captured-log.ts'
import { createInstallation } from '../kit/installation.ts'
import { until } from '../kit/until.ts'
import type { DatabaseBody } from './support/customer.ts'
import { portRange, scratchFolder, serveCustomer } from './support/platform.ts'

/** An API that stays, and a node that is closed and started again on the same data directory. */
async function startApi(more: Record<string, string> = {}) {
  const folder = await scratchFolder()
  const installation = await createInstallation({
    KEYHOOK_DATA_DIR: join(folder, 'data'),
    KEYHOOK_DATABASES_PORTS: portRange(),
    KEYHOOK_MASTER_KEY: randomBytes(32).toString('base64'),
    ...more,
  })
  const customer = await serveCustomer(installation)
  let closeNode = async () => {}
  onTestFinished(async () => {
    await closeNode()
    await customer.close()
    await installation.close()
    await rm(folder, { recursive: true, force: true })
  })
  return {
    ...installation,
    ...customer,
    async startNode(log: Logger = captureLog().log) {
      const queue = composeJobQueue(installation, { log, worksOnJobs: true })
      const instances = composeInstances(installation.config, log)
      const hints = composeHints(installation, log)
      const node = await composePlatformNode(installation, { log, queue, instances, hints })
      closeNode = async () => {
        closeNode = async () => {}
        await node.close()
      }
      await node.ready
    },
    closeNode: () => closeNode(),
    shown: (id: string) => customer.get<DatabaseBody>(`/databases/${id}`),
  }
}

test('a database whose node is silent, or whose port is taken, is shown as unreachable until it runs again', async () => {
  const api = await startApi()
  await api.startNode()
  const { id, host, port, connection_string } = await api.createDatabase()
  await api.closeNode()
  const isUnreachable = ({ status }: DatabaseBody) => status === 'unreachable'
  // The address stays the same, and is still shown.
  expect(await until(() => api.shown(id), isUnreachable)).toMatchObject({ host, port, connection_string })
  expect(await api.get<DatabaseBody[]>('/databases')).toMatchObject([{ id, status: 'unreachable' }])

  const taker = createServer()
  await new Promise<void>((done) => taker.listen({ host: host!, port: port! }, done))
  await api.startNode()
  expect(await api.shown(id)).toMatchObject({ status: 'unreachable' })
  await new Promise((done) => taker.close(done))
  await until(
    () => api.shown(id),
    ({ status }) => status === 'available',
  )
})

test('a clean restart logs no errors', async () => {
  const api = await startApi({ KEYHOOK_POINT_IN_TIME_RESTORE: 'on' })
  await api.startNode()
  for (const name of ['one', 'two', 'three']) await api.createDatabase(name)
  await api.closeNode()
  const { log, lines } = captureLog()
  const [{ now }] = await api.db<[{ now: Date }]>`select clock_timestamp() as now`
  await api.startNode(log)
  const archived = () => api.db`select 1 from keyhook.wal_archives where archived_until > ${now}`
  await until(archived, (rows) => rows.length === 3)
  await api.closeNode()
  expect(lines().filter(({ level }) => Number(level) >= 50)).toEqual([])
})

test('databases of several organizations whose ports nothing protects are reported once', async () => {
  const { db, another, orgId } = await startApi()
  const { orgId: otherOrgId } = await another()
  const { log, lines } = captureLog()
  const closing = new AbortController()
  const portProblem = async () => 'nft is not installed'
  const add = (org: string, node: string) => db`
    insert into keyhook.databases (org_id, id, name, status, node, host, port, created_by)
    select ${org}, ${newId('db')}, 'd', 'available', ${node}, 'localhost', 1, (select id from keyhook.users limit 1)`
  const watch = (node: string, problem: () => Promise<string | null>) =>
    warnOfNeighbours({ db, node, instances: { portProblem: problem }, signal: closing.signal, log })
  for (const [org, node] of [[orgId, 'own'] as const, [orgId, 'own'] as const, [orgId, 'shared'] as const])
    await add(org, node)
  await add(otherOrgId, 'shared')
  const quiet = [watch('own', portProblem), watch('shared', async () => null)]
  await watch('shared', portProblem)
  closing.abort()
  await Promise.all(quiet)
  expect(lines()).toMatchObject([
    { msg: 'databases.ports_unprotected', organizations: 2, why: 'nft is not installed', level: 40 },
  ])
})
