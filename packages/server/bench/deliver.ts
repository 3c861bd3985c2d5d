import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect } from '../src/db/database.ts'
import { migrate, readMigrations } from '../src/db/migrate.ts'
import { createMasterKeys } from '../src/lib/master-keys.ts'
import { openEmbedded } from '../src/postgres/index.ts'
import { postgresCpuUs } from './cpu.ts'
import { measureIsolation, measureLatency } from './deliver-latency.ts'
import { type Peer, startPeer } from './deliver-peer.ts'
import type { Side } from './deliver-sender.ts'
import { addOrganization, clearBacklog, fillAttempts, fillBacklog, firstPageMs, type World } from './deliver-world.ts'
import { median } from './median.ts'

const turns = Number(process.env.BENCH_TURNS ?? 5)
const seconds = Number(process.env.BENCH_SECONDS ?? 4)
const stored = Number(process.env.BENCH_STORED ?? 10_000_000)
const only = process.env.BENCH_ONLY?.split(',') ?? ['throughput', 'latency', 'isolation', 'memory', 'growth']

/** What delivering costs: the whole engine against a bare loop of the same signed requests, in turns. */
export async function benchDeliver(): Promise<void> {
  const dataDir = await mkdtemp(join(tmpdir(), 'keyhook-bench-'))
  const embedded = await openEmbedded({ dataDir, purpose: 'serve', note: console.log })
  const db = connect(embedded.connection, { name: 'bench', connectionsMax: 4 })
  const receiver = await startPeer('./deliver-receiver.ts')
  const [{ port }] = (await once(receiver.child, 'message')) as [{ port: number }]
  const key = randomBytes(32)
  const url = `https://127.0.0.1:${port}`
  const profile = process.env.BENCH_PROFILE ? ['--cpu-prof', `--cpu-prof-dir=${process.env.BENCH_PROFILE}`] : []
  const startSender = async () => {
    const peer = await startPeer('./deliver-sender.ts', profile)
    await peer.ask({ setup: { target: embedded.connection, masterKey: key.toString('base64'), url, environment: {} } })
    return peer
  }
  const sender = await startSender()
  const world: World = { db, masterKeys: createMasterKeys([key]), url, receiver, sender }
  try {
    await migrate(db, await readMigrations())
    const empty = only.includes('throughput') ? await throughput(world, 'with nothing stored') : null
    const third = (empty?.perSecond ?? 6_000) / 3
    if (only.includes('latency'))
      await measureLatency(world, Number(process.env.BENCH_RATE ?? third), turns, startSender)
    if (only.includes('isolation')) await measureIsolation(world)
    if (only.includes('memory')) await memory(world, startSender)
    if (only.includes('growth')) await growth(world, empty?.ratio ?? null)
  } finally {
    sender.child.disconnect()
    receiver.child.disconnect()
    await sleep(profile.length > 0 ? 3_000 : 300)
    sender.child.kill()
    receiver.child.kill()
    await db.end()
    await embedded.stop()
    await rm(await realpath(join(dataDir, 'postgres')), { recursive: true, force: true })
    await rm(dataDir, { recursive: true, force: true })
  }
}

async function throughput(world: World, when: string): Promise<{ perSecond: number; ratio: number }> {
  const org = await addOrganization(world, 64, '/w')
  const results: Record<Side, Rate>[] = []
  for (let turn = 0; turn <= turns; turn++) {
    // Enough for the ten seconds that connecting may take, too: the backlog must not run out.
    await fillBacklog(world, org, (10_000 * (seconds + 11)) / 64)
    const result = {
      leanest: await rate(world, 'leanest'),
      bare: await rate(world, 'bare'),
      engine: await rate(world, 'engine'),
    }
    // The first turn warms all sides up and is not counted.
    if (turn > 0) results.push(result)
    if (process.env.BENCH_LOG) console.log(result)
  }
  await clearBacklog(world)
  const of = (side: Side) => median(results.map((result) => result[side].perSecond))
  const cost = (side: Side) => Math.round(median(results.map((result) => result[side].cpuUs)))
  const postgres = Math.round(median(results.map((result) => result.engine.postgresUs)))
  const over = (side: Side) => median(results.map((result) => result.engine.perSecond / result[side].perSecond))
  console.log(
    `throughput ${when}: engine ${Math.round(of('engine'))}/s, Node ${cost('engine')} µs and PostgreSQL ${postgres} µs a delivery`,
  )
  console.log(
    `  over a bare loop of undici's request: ${over('bare').toFixed(3)} of ${Math.round(of('bare'))}/s, ${cost('bare')} µs each (bar 0.60, goal 0.80)`,
  )
  console.log(
    `  over the engine's own signatures and connections with nothing behind them: ${over('leanest').toFixed(3)} of ${Math.round(of('leanest'))}/s, ${cost('leanest')} µs each`,
  )
  return { perSecond: of('engine'), ratio: over('bare') }
}

/** The same again with millions of attempts stored, and the first page of a history with none and with all of them. */
async function growth(world: World, ratioBefore: number | null): Promise<void> {
  const before = await firstPageMs(world)
  await fillAttempts(world.db, stored)
  const after = await firstPageMs(world)
  console.log(`first page of a history: ${before.toFixed(2)} ms before, ${after.toFixed(2)} ms with them`)
  const { ratio } = await throughput(world, `with ${stored.toLocaleString('en')} attempts stored`)
  // Ratios are compared: minutes pass between the two, and other load changes.
  if (ratioBefore !== null)
    console.log(`ratio with them over ratio before: ${(ratio / ratioBefore).toFixed(3)} (bar 0.95)`)
}

type Received = { count: number; connections: number }
type Usage = { rssMb: number; cpuUs: number }
type Rate = { perSecond: number; cpuUs: number; postgresUs: number; connections: number }

/** Requests that arrived per second, and CPU time of the sending process for each, which is comparable on a busy machine too. */
async function rate({ db, sender, receiver }: World, run: Side): Promise<Rate> {
  await sender.ask({ run })
  await untilConnected(receiver)
  const begun = performance.now()
  const before = await receiver.ask<Received>({ ask: 'count' })
  const postgresBefore = await postgresCpuUs(db)
  const used = await sender.ask<Usage>({ ask: 'usage' })
  await sleep(seconds * 1_000)
  const after = await receiver.ask<Received>({ ask: 'count' })
  const count = after.count - before.count
  const perSecond = count / ((performance.now() - begun) / 1_000)
  const cpuUs = ((await sender.ask<Usage>({ ask: 'usage' })).cpuUs - used.cpuUs) / count
  const postgresUs = ((await postgresCpuUs(db)) - postgresBefore) / count
  await sender.ask({ run: 'stop' })
  return { perSecond, cpuUs, postgresUs, connections: after.connections - before.connections }
}

/** Both sides open their connections first: only sending is compared. The engine opens more connections while receivers are fast. */
async function untilConnected(receiver: World['receiver']): Promise<void> {
  let opened = -1
  for (let i = 0; i < 10; i++) {
    const { connections } = await receiver.ask<Received>({ ask: 'count' })
    if (i > 1 && connections - opened < 3) return
    opened = connections
    await sleep(1_000)
  }
}

/** A million deliveries waiting: they must not all be in memory. Measured in a new process. */
async function memory(world: World, startSender: () => Promise<Peer>): Promise<void> {
  const org = await addOrganization(world, 64, '/w')
  await fillBacklog(world, org, 1_000_000 / 64)
  const sender = await startSender()
  await sender.ask({ run: 'engine' })
  let most = 0
  for (let i = 0; i < 20; i++) {
    await sleep(500)
    most = Math.max(most, (await sender.ask<Usage>({ ask: 'usage' })).rssMb)
  }
  await sender.ask({ run: 'stop' })
  sender.child.disconnect()
  await clearBacklog(world)
  console.log(`memory with 1,000,000 deliveries waiting: ${most} MB resident while sending (bar 400 MB)`)
}
