import { setTimeout as sleep } from 'node:timers/promises'
import { createHints } from '../src/delivery/hints.ts'
import type { OrgId } from '../src/lib/ids.ts'
import { postgresCpuUs } from './cpu.ts'
import type { Peer } from './deliver-peer.ts'
import { type Published, type Publishing, publishAtPace } from './deliver-publishing.ts'
import type { Pace } from './deliver-sender.ts'
import { addOrganization, clearBacklog, type World } from './deliver-world.ts'
import { median } from './median.ts'
import { now } from './now.ts'

const quantile = (sorted: readonly number[], q: number) =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))] ?? 0

/** `arrived` also counts arrivals before the measurement started. */
type Paced = { p50: number; p99: number; perSecond: number; arrived: number }

/** How long after the request to send it each event arrived. */
function latencies(given: ReadonlyMap<string, number>, arrivals: readonly [string, number][], tookS: number): Paced {
  const ms = arrivals
    .flatMap(([id, at]) => (given.has(id) ? [Math.max(0, at - given.get(id)!)] : []))
    .sort((a, b) => a - b)
  return { p50: quantile(ms, 0.5), p99: quantile(ms, 0.99), perSecond: ms.length / tookS, arrived: arrivals.length }
}

/** Which process publishes: the one that sends, as with `npm start`, or another one, as with separate roles. */
type Publisher = 'itself' | 'another'
const publishers: Record<Publisher, (world: World, publishing: Publishing) => Promise<Published>> = {
  itself: ({ sender }, publishing) => sender.ask({ publish: publishing }),
  another: ({ db }, publishing) => publishAtPace({ db, hints: createHints({ db, onError() {} }) }, publishing),
}

/** Publishes at a steady pace. Returns how long after its commit each event arrived. */
async function paced(
  world: World,
  publisher: Publisher,
  orgs: readonly OrgId[],
  eventsPerSecond: number,
  seconds: number,
): Promise<Paced> {
  await world.receiver.ask({ ask: 'record' })
  const { committed, tookS } = await publishers[publisher](world, { orgs, eventsPerSecond, seconds })
  await sleep(1_500)
  const { arrivals } = await world.receiver.ask<Arrivals>({ ask: 'arrivals' })
  return latencies(new Map(committed), arrivals, tookS)
}

type Cost = { nodeUs: number; postgresUs: number }

/** CPU time per delivery of the sending process and of PostgreSQL, which is comparable on a busy machine too. */
async function withCost(world: World, run: () => Promise<Paced>): Promise<Paced & Cost> {
  const used = async (): Promise<Cost> => ({
    nodeUs: (await world.sender.ask<{ cpuUs: number }>({ ask: 'usage' })).cpuUs,
    postgresUs: await postgresCpuUs(world.db),
  })
  const before = await used()
  const paced = await run()
  const after = await used()
  const each = (what: keyof Cost) => (after[what] - before[what]) / paced.arrived
  return { ...paced, nodeUs: each('nodeUs'), postgresUs: each('postgresUs') }
}

type Arrivals = { arrivals: [string, number][] }

/** The same requests at the same pace with nothing behind them: no event, no commit, no record. */
async function pacedBare(receiver: Peer, sender: Peer, pace: Pace): Promise<Paced> {
  await receiver.ask({ ask: 'record' })
  const { sent } = await sender.ask<{ sent: [string, number][] }>({ pace })
  const { arrivals } = await receiver.ask<Arrivals>({ ask: 'arrivals' })
  return latencies(new Map(sent), arrivals, pace.seconds)
}

/** In a run of a few seconds, a tenth of a second of other load decides the p99. So runs alternate, and the median counts. */
export async function measureLatency(
  world: World,
  perSecond: number,
  turns: number,
  startSender: () => Promise<Peer>,
): Promise<void> {
  const webhooksPerEvent = 8
  const eventsPerSecond = perSecond / webhooksPerEvent
  const orgs: OrgId[] = []
  for (let i = 0; i < 8; i++) orgs.push(await addOrganization(world, webhooksPerEvent, '/w'))
  const bareSender = await startSender()
  await world.sender.ask({ run: 'engine' })
  const seen = { itself: [] as (Paced & Cost)[], another: [] as Paced[], bare: [] as Paced[] }
  for (let turn = 0; turn <= turns; turn++) {
    const bare = await pacedBare(world.receiver, bareSender, { eventsPerSecond, webhooksPerEvent, seconds: 3 })
    const itself = await withCost(world, () => paced(world, 'itself', orgs, eventsPerSecond, 4))
    const another = await paced(world, 'another', orgs, eventsPerSecond, 4)
    if (process.env.BENCH_LOG) console.log({ itself, another, bare })
    // The first turn opens connections and is not counted.
    if (turn === 0) continue
    seen.bare.push(bare)
    seen.itself.push(itself)
    seen.another.push(another)
  }
  await world.sender.ask({ run: 'stop' })
  bareSender.child.disconnect()
  await clearBacklog(world)
  const disk = await commitMs(world)
  const of = (side: keyof typeof seen, what: keyof Paced) => median(seen[side].map((one) => one[what]))
  const say = (side: keyof typeof seen, what: 'p50' | 'p99') => `${what} ${of(side, what).toFixed(1)} ms`
  console.log(
    `latency from commit to arrival at ${Math.round(of('itself', 'perSecond'))}/s, published by the process that sends: ${say('itself', 'p50')} (bar 5), ${say('itself', 'p99')} (bar 30); medians of ${turns}`,
  )
  const cost = (what: keyof Cost) => Math.round(median(seen.itself.map((one) => one[what])))
  console.log(`  Node ${cost('nodeUs')} µs and PostgreSQL ${cost('postgresUs')} µs a delivery`)
  console.log(
    `  published by another process: ${say('another', 'p50')}, ${say('another', 'p99')}; the same requests at the same pace with nothing behind them: ${say('bare', 'p50')}, ${say('bare', 'p99')}; a commit on this disk, of which every delivery waits for one: p50 ${disk.p50.toFixed(1)} ms, p99 ${disk.p99.toFixed(1)} ms`,
  )
}

/** The limit of the disk: the smallest commit, repeated, with no other load. */
async function commitMs({ db }: World): Promise<{ p50: number; p99: number }> {
  const ms: number[] = []
  for (let i = 0; i < 1_000; i++) {
    const begun = now()
    await db`insert into keyhook.wakes values ('org_bench', ${i}, ${i})`
    ms.push(now() - begun)
    await sleep(2)
  }
  await db`delete from keyhook.wakes where org_id = 'org_bench'`
  ms.sort((a, b) => a - b)
  return { p50: quantile(ms, 0.5), p99: quantile(ms, 0.99) }
}

/** Many: in a run of a few seconds, a tenth of a second of other load decides the p99. */
const rounds = 7

/**
 * 500 healthy webhooks alone, and 500 that share their organizations with 500 that hang until their deadline: in turns, so
 * that other load on the machine affects both.
 */
export async function measureIsolation(world: World): Promise<void> {
  const alone: OrgId[] = []
  const beside: OrgId[] = []
  for (let i = 0; i < 10; i++) {
    alone.push(await addOrganization(world, 50, '/w'))
    beside.push(await addOrganization(world, 50, '/w', '/hang'))
  }
  await world.sender.ask({ run: 'engine' })
  await paced(world, 'itself', alone, 10, 2)
  await paced(world, 'itself', beside, 10, 2)
  const seen = { alone: [] as Paced[], beside: [] as Paced[] }
  for (let round = 0; round < rounds; round++) {
    seen.alone.push(await paced(world, 'itself', alone, 10, 4))
    seen.beside.push(await paced(world, 'itself', beside, 10, 4))
  }
  await world.sender.ask({ run: 'stop' })
  // Otherwise the next measurement would run beside 500 receivers that hang.
  await clearBacklog(world)
  const of = (side: 'alone' | 'beside', what: 'p99' | 'perSecond') => median(seen[side].map((one) => one[what]))
  const times = of('beside', 'p99') / of('alone', 'p99')
  const say = (side: 'alone' | 'beside') =>
    `${side} p99 ${of(side, 'p99').toFixed(1)} ms at ${Math.round(of(side, 'perSecond'))}/s`
  console.log(
    `isolation, 500 healthy webhooks: ${say('alone')}, ${say('beside')} 500 that hang: ${times.toFixed(2)} times (bar 1.5); medians of ${rounds}`,
  )
}
