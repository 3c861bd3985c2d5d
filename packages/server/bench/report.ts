import { once } from 'node:events'
import { mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { operator } from '../src/access/audit.ts'
import { signOperatorTokens } from '../src/compose/routes.ts'
import { type ConnectionTarget, connect, type Database } from '../src/db/database.ts'
import { migrate, readMigrations } from '../src/db/migrate.ts'
import { createMasterKeys } from '../src/lib/master-keys.ts'
import { issueOperatorToken } from '../src/operator/token-routes.ts'
import { openEmbedded } from '../src/postgres/index.ts'
import { type Child, startChild } from './child.ts'
import { postgresCpuUs, processCpuUs } from './cpu.ts'
import { type Peer, startPeer } from './deliver-peer.ts'
import { addOrganization } from './deliver-world.ts'
import { createLoad, type Request } from './load.ts'
import { median } from './median.ts'
import { type Latency, postAtPace } from './report-pace.ts'

const turns = Number(process.env.BENCH_TURNS ?? 5)
const path = '/operator/v1/events'
const masterKeys = createMasterKeys([Buffer.alloc(32)])
const counts = { organizations: 64, inOneRequest: 400 }
const single = createLoad({ connections: 64, seconds: 3 })
const batches = createLoad({ connections: 6, seconds: 3 })

/** Figures of one turn: events per second, and CPU time for each. */
type Rate = { perSecond: number; nodeUs: number; postgresUs: number }
type Turn = { bare: Rate; one: Rate; many: Rate; delivering: Rate; delivered: Rate; several: Rate }

/**
 * How fast events are accepted, one in each request, with a delivery for one webhook: of one organization, of many, of many while
 * they are delivered by the same process, and in requests with events of hundreds of organizations. Compared with bare Fastify and
 * one insert per event, without any checks. And how long after the request an event arrives.
 */
export async function benchReport(): Promise<void> {
  const dataDir = await mkdtemp(join(tmpdir(), 'keyhook-bench-'))
  const embedded = await openEmbedded({ dataDir, purpose: 'serve', note: console.log })
  const receiver = await startPeer('./deliver-receiver.ts')
  const [{ port }] = (await once(receiver.child, 'message')) as [{ port: number }]
  const url = `https://127.0.0.1:${port}`
  const target = embedded.connection
  const databases: Database[] = []
  const servers: Child[] = []
  const start = async (script: string, settings: { target: ConnectionTarget; delivers?: boolean }) => {
    const server = await startChild(new URL(script, import.meta.url), settings)
    servers.push(server)
    return server
  }
  try {
    // Two databases: the dispatcher of one must not deliver what is only accepted in the other.
    const quiet = await fill(target, url, databases)
    await quiet.db.unsafe('create database delivering')
    const busy = await fill({ ...target, database: 'delivering' }, url, databases)
    const bare = await start('intake-server.ts', { target })
    const api = await start('api-server.ts', { target })
    const all = await start('api-server.ts', { target: busy.db.target, delivers: true })
    console.log(`${single.client}; ${turns} turns a side, in turns`)
    const measure = (server: Child, requests: readonly Request[], load = single, each = 1) =>
      rate(quiet.db, server.pid, each, () => load.requestsPerSecond(server.url + path, requests))
    const results: Turn[] = []
    for (let turn = -1; turn < turns; turn++) {
      const result = {
        bare: await measure(bare, quiet.requests),
        one: await measure(api, quiet.requests.slice(0, 1)),
        many: await measure(api, quiet.requests),
        ...(await whileDelivering(receiver, () => measure(all, busy.requests))),
        several: (await whileDelivering(receiver, () => measure(all, busy.several, batches, counts.inOneRequest)))
          .delivering,
      }
      // The first turn warms all sides up and is not counted.
      if (turn >= 0) results.push(result)
      if (process.env.BENCH_LOG) console.log(result)
    }
    const of = (side: keyof Turn, what: keyof Rate) => Math.round(median(results.map((result) => result[side][what])))
    const ratio = (side: keyof Turn) =>
      median(results.map((one) => one[side].perSecond / one.bare.perSecond)).toFixed(2)
    const say = (what: string, side: keyof Turn) =>
      console.log(
        `${what}: ${of(side, 'perSecond')} events/s, ratio ${ratio(side)}, Node ${of(side, 'nodeUs')} µs and PostgreSQL ${of(side, 'postgresUs')} µs an event`,
      )
    say('bare Fastify with an insert for each', 'bare')
    say('one organization', 'one')
    say(`${counts.organizations} organizations`, 'many')
    say(`${counts.organizations} organizations, while they are delivered`, 'delivering')
    console.log(`  delivered meanwhile: ${of('delivered', 'perSecond')}/s`)
    say(
      `${counts.inOneRequest} organizations in each request, 6 requests at a time, while they are delivered`,
      'several',
    )
    for (const perSecond of [100, 500]) {
      const seen: Latency[] = []
      for (let turn = 0; turn < turns; turn++)
        seen.push(await postAtPace(receiver, all.url + path, busy.requests, perSecond))
      const ms = (what: keyof Latency) => median(seen.map((one) => one[what])).toFixed(1)
      console.log(`from the request to arrival at ${perSecond} events/s: p50 ${ms('p50')} ms, p99 ${ms('p99')} ms`)
    }
  } finally {
    receiver.child.disconnect()
    for (const server of servers) await server.stop()
    for (const db of databases) await db.end()
    await embedded.stop()
    await rm(await realpath(join(dataDir, 'postgres')), { recursive: true, force: true })
    await rm(dataDir, { recursive: true, force: true })
  }
}

async function fill(target: ConnectionTarget, url: string, opened: Database[]) {
  const db = connect(target, { name: 'bench', connectionsMax: 2 })
  opened.push(db)
  await migrate(db, await readMigrations())
  const ids: string[] = []
  for (let n = 0; n < counts.inOneRequest; n++) ids.push(await addOrganization({ db, masterKeys, url }, 1, '/w'))
  const issue = { name: 'bench', ttlSeconds: 3_600 }
  const { token } = await db.begin((tx) => issueOperatorToken(tx, signOperatorTokens(masterKeys), operator, issue))
  const requests = ids.slice(0, counts.organizations).map((id): Request => ({ token, body: eventOf(id) }))
  return { db, requests, several: [{ token, body: `[${ids.map(eventOf).join()}]` }] }
}

/** `each`: events in a request. */
async function rate(db: Database, pid: number, each: number, run: () => Promise<number>): Promise<Rate> {
  const used = async () => ({ node: await processCpuUs(pid), postgres: await postgresCpuUs(db) })
  const before = await used()
  const begun = performance.now()
  const perSecond = (await run()) * each
  const events = (perSecond * (performance.now() - begun)) / 1_000
  const after = await used()
  return {
    perSecond,
    nodeUs: (after.node - before.node) / events,
    postgresUs: (after.postgres - before.postgres) / events,
  }
}

/** Also how many arrived meanwhile. Waits until the rest has arrived: the next measurement starts with nothing waiting. */
async function whileDelivering(
  receiver: Peer,
  publish: () => Promise<Rate>,
): Promise<{ delivering: Rate; delivered: Rate }> {
  const count = async () => (await receiver.ask<{ count: number }>({ ask: 'count' })).count
  const before = await count()
  const begun = performance.now()
  const delivering = await publish()
  const seconds = (performance.now() - begun) / 1_000
  let arrived = await count()
  const perSecond = (arrived - before) / seconds
  for (let earlier = -1; earlier !== arrived; arrived = await count()) {
    earlier = arrived
    await sleep(500)
  }
  return { delivering, delivered: { ...delivering, perSecond } }
}

export const eventOf = (organizationId: string): string =>
  JSON.stringify({
    organization_id: organizationId,
    type: 'database.created',
    data: { database_id: 'db_01h455vb4pex5vsknk084sn02q', name: 'x'.repeat(130) },
  })
