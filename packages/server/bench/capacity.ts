import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { operator } from '../src/access/audit.ts'
import { signOperatorTokens } from '../src/compose/routes.ts'
import { type ConnectionTarget, connect, type Database } from '../src/db/database.ts'
import { createMasterKeys } from '../src/lib/master-keys.ts'
import { mintApiKey } from '../src/lib/secrets.ts'
import { issueOperatorToken } from '../src/operator/token-routes.ts'
import { openEmbedded } from '../src/postgres/index.ts'
import { type Child, startChild } from './child.ts'
import { postgresCpuUs, processCpuUs } from './cpu.ts'
import { startPeer } from './deliver-peer.ts'
import { addOrganization, clearBacklog, fillBacklog, type World } from './deliver-world.ts'
import { createLoad, type Request } from './load.ts'
import { median } from './median.ts'
import { eventOf } from './report.ts'
import { fillWithKeys } from './stored-keys.ts'

const counts = [1, 2, 4] as const
const turns = Number(process.env.BENCH_TURNS ?? 5)
const seconds = Number(process.env.BENCH_SECONDS ?? 4)
const connections = 64
const organizations = 32
const webhooks = 64
const eventsPerBatch = 100

/** For one kind of work: its rate, and the processor time for one piece of it. */
type Cost = { perSecond: number; nodeUs: number; postgresUs: number }
type Measure = (processes: number) => Promise<Cost>

/**
 * What one process, two and four cost on one PostgreSQL, in turns. Where processors are few, all share them and the rate stays the
 * same: then the times show whether more processes get into each other's way, and those are what one can plan with.
 */
export async function benchCapacity(): Promise<void> {
  const dataDir = await mkdtemp(join(tmpdir(), 'keyhook-bench-'))
  const embedded = await openEmbedded({ dataDir, purpose: 'serve', note: console.log })
  try {
    await withApis(embedded.connection, async (apis) => {
      await report('requests with an API key, 500 keys in turn', (n) => apis.keys(n))
      await report(`events accepted, one a request, ${organizations} organizations`, (n) => apis.events(n))
      await report(`events accepted, ${eventsPerBatch} a request`, (n) => apis.batches(n))
    })
    await withDispatchers(embedded.connection, (deliver) => report(`deliveries to ${webhooks} webhooks`, deliver))
  } finally {
    await embedded.stop()
    await rm(await realpath(join(dataDir, 'postgres')), { recursive: true, force: true })
    await rm(dataDir, { recursive: true, force: true })
  }
}

async function report(what: string, measure: Measure): Promise<void> {
  const results = counts.map((): Cost[] => [])
  // The first turn warms everything up and is not counted.
  for (let turn = 0; turn <= turns; turn++) {
    for (const [i, processes] of counts.entries()) {
      const cost = await measure(processes)
      if (turn > 0) results[i]!.push(cost)
    }
  }
  console.log(`${what}; ${turns} turns each, in turns, medians`)
  for (const [i, processes] of counts.entries()) {
    const of = (key: keyof Cost) => Math.round(median(results[i]!.map((cost) => cost[key])))
    const ratio = median(results[i]!.map((cost, turn) => cost.perSecond / results[0]![turn]!.perSecond)).toFixed(2)
    const noun = processes === 1 ? 'process: ' : 'processes:'
    console.log(
      `  ${processes} ${noun} ${of('perSecond')}/s, ratio ${ratio}, Node ${of('nodeUs')} µs and PostgreSQL ${of('postgresUs')} µs each`,
    )
  }
}

/** Counts work that `run` does, and what it took of these processes and of PostgreSQL. */
async function measured(db: Database, pids: readonly number[], run: () => Promise<number>): Promise<Cost> {
  const nodeUs = async () => (await Promise.all(pids.map(processCpuUs))).reduce((sum, us) => sum + us, 0)
  const before = { node: await nodeUs(), postgres: await postgresCpuUs(db), at: performance.now() }
  const count = await run()
  const tookS = (performance.now() - before.at) / 1_000
  return {
    perSecond: count / tookS,
    nodeUs: ((await nodeUs()) - before.node) / count,
    postgresUs: ((await postgresCpuUs(db)) - before.postgres) / count,
  }
}

async function withApis(
  cluster: ConnectionTarget,
  use: (apis: { keys: Measure; events: Measure; batches: Measure }) => Promise<void>,
): Promise<void> {
  const keys = Array.from({ length: 500 }, () => mintApiKey('kh'))
  const target = await fillWithKeys(cluster, 'capacity', keys, 100_000)
  const db = connect(target, { name: 'bench', connectionsMax: 2 })
  const masterKeys = createMasterKeys([Buffer.alloc(32)])
  const world = { db, masterKeys, url: 'https://example.com' }
  const orgIds: string[] = []
  for (let n = 0; n < organizations; n++) orgIds.push(await addOrganization(world, 1, '/w'))
  const issue = { name: 'bench', ttlSeconds: 36_000 }
  const { token } = await db.begin((tx) => issueOperatorToken(tx, signOperatorTokens(masterKeys), operator, issue))
  const servers: Child[] = []
  try {
    for (let n = 0; n < Math.max(...counts); n++)
      servers.push(await startChild(new URL('api-server.ts', import.meta.url), { target }))
    const load =
      (path: string, requests: readonly Request[], perRequest = 1): Measure =>
      (processes) => {
        const used = servers.slice(0, processes)
        const one = () => createLoad({ connections: connections / processes, seconds })
        const run = async () => {
          const rates = await Promise.all(used.map(({ url }) => one().requestsPerSecond(url + path, requests)))
          return rates.reduce((sum, rate) => sum + rate, 0) * seconds * perRequest
        }
        const pids = used.map(({ pid }) => pid)
        return measured(db, pids, run)
      }
    await use({
      keys: load(
        '/api/v1/organizations',
        keys.map(({ apiKey }) => ({ token: apiKey })),
      ),
      events: load(
        '/operator/v1/events',
        orgIds.map((id) => ({ token, body: eventOf(id) })),
      ),
      batches: load(
        '/operator/v1/events',
        orgIds.map((id) => ({ token, body: `[${Array(eventsPerBatch).fill(eventOf(id)).join()}]` })),
        eventsPerBatch,
      ),
    })
  } finally {
    for (const server of servers) await server.stop()
    await db.end()
  }
}

async function withDispatchers(cluster: ConnectionTarget, use: (deliver: Measure) => Promise<void>): Promise<void> {
  const target = await fillWithKeys(cluster, 'deliveries', [], 0)
  const db = connect(target, { name: 'bench', connectionsMax: 4 })
  const key = randomBytes(32)
  const receiver = await startPeer('./deliver-receiver.ts')
  const [{ port }] = (await once(receiver.child, 'message')) as [{ port: number }]
  const url = `https://127.0.0.1:${port}`
  const senders = await Promise.all(Array.from({ length: Math.max(...counts) }, () => startPeer('./deliver-sender.ts')))
  const setup = { target, masterKey: key.toString('base64'), url, environment: {} }
  for (const sender of senders) await sender.ask({ setup })
  const world: World = { db, masterKeys: createMasterKeys([key]), url, receiver, sender: senders[0]! }
  try {
    const orgId = await addOrganization(world, webhooks, '/w')
    const count = async () => (await receiver.ask<{ count: number }>({ ask: 'count' })).count
    await use(async (processes) => {
      await fillBacklog(world, orgId, (12_000 * (seconds + 5)) / webhooks)
      const used = senders.slice(0, processes)
      for (const sender of used) await sender.ask({ run: 'engine' })
      // Until lanes are shared out and connections are open.
      await sleep(3_000)
      const begun = await count()
      const cost = await measured(
        db,
        used.map(({ child }) => child.pid!),
        async () => {
          await sleep(seconds * 1_000)
          return (await count()) - begun
        },
      )
      for (const sender of used) await sender.ask({ run: 'stop' })
      await clearBacklog(world)
      return cost
    })
    console.log('stored, with indexes:')
    for (const table of ['events', 'deliveries', 'attempts'])
      console.log(`  ${table}: ${await bytesPerRow(db, table)} bytes each`)
  } finally {
    for (const { child } of [...senders, receiver]) {
      child.disconnect()
      child.kill()
    }
    await db.end()
  }
}

async function bytesPerRow(db: Database, table: string): Promise<number> {
  const [row] = await db.unsafe(`
    select sum(pg_total_relation_size(relid)) / (select count(*) from keyhook.${table}) as bytes
    from (select relid from pg_partition_tree('keyhook.${table}') union select 'keyhook.${table}'::regclass) as t`)
  return Math.round(Number(row!.bytes))
}
