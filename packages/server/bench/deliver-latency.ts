import { setTimeout as sleep } from 'node:timers/promises'
import { newId, type OrgId } from '../src/kernel/ids.ts'
import { createHints } from '../src/webhooks/hints.ts'
import { publish } from '../src/webhooks/publish.ts'
import { addOrganization, type World } from './deliver-world.ts'

const now = () => performance.timeOrigin + performance.now()
const quantile = (sorted: readonly number[], q: number) =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))] ?? 0

/** Publishes at a steady pace, each event in a transaction of its own, and says how long after its commit it arrived. */
async function paced(world: World, orgs: readonly OrgId[], eventsPerSecond: number, seconds: number) {
  const hints = createHints({ db: world.db, onError() {} })
  const committed = new Map<string, number>()
  await world.receiver.ask({ ask: 'record' })
  const begun = now()
  const total = Math.round(eventsPerSecond * seconds)
  const publishing: Promise<void>[] = []
  for (let i = 0; i < total; i++) {
    const due = begun + (i * 1_000) / eventsPerSecond
    if (due > now()) await sleep(due - now())
    const orgId = orgs[i % orgs.length]!
    const data = { database_id: newId('db'), name: 'x'.repeat(130) }
    publishing.push(
      world.db
        .begin((tx) => publish(tx, { orgId, type: 'database.created', data }))
        .then(({ id }) => {
          committed.set(id, now())
          hints.give()
        }),
    )
  }
  await Promise.all(publishing)
  const took = (now() - begun) / 1_000
  await sleep(1_500)
  const { arrivals } = await world.receiver.ask<{ arrivals: [string, number][] }>({ ask: 'arrivals' })
  const ms = arrivals
    .flatMap(([id, at]) => (committed.has(id) ? [Math.max(0, at - committed.get(id)!)] : []))
    .sort((a, b) => a - b)
  return { p50: quantile(ms, 0.5), p99: quantile(ms, 0.99), perSecond: ms.length / took, arrived: ms.length }
}

export async function measureLatency(world: World): Promise<void> {
  const perSecond = Number(process.env.BENCH_RATE ?? 2_000)
  const orgs: OrgId[] = []
  for (let i = 0; i < 8; i++) orgs.push(await addOrganization(world, 8, '/w'))
  await world.sender.ask({ run: 'engine' })
  await paced(world, orgs, perSecond / 8, 2)
  const { p50, p99, perSecond: measured } = await paced(world, orgs, perSecond / 8, 6)
  await world.sender.ask({ run: 'stop' })
  console.log(
    `latency from commit to arrival at ${Math.round(measured)}/s: p50 ${p50.toFixed(1)} ms (bar 5), p99 ${p99.toFixed(1)} ms (bar 30)`,
  )
}

/** 500 healthy webhooks alone, then with 500 beside them that hang until their deadline, in the same organizations. */
export async function measureIsolation(world: World): Promise<void> {
  const alone: OrgId[] = []
  const mixed: OrgId[] = []
  const sick: OrgId[] = []
  for (let i = 0; i < 10; i++) {
    alone.push(await addOrganization(world, 50, '/w'))
    mixed.push(await addOrganization(world, 50, '/w'))
    sick.push(await addOrganization(world, 50, '/hang'))
  }
  await world.sender.ask({ run: 'engine' })
  const hints = createHints({ db: world.db, onError() {} })
  await paced(world, alone, 10, 2)
  const before = await paced(world, alone, 10, 6)
  for (let i = 0; i < 40; i++) {
    const orgId = sick[i % sick.length]!
    await world.db.begin((tx) =>
      publish(tx, { orgId, type: 'database.created', data: { database_id: newId('db'), name: 'sick' } }),
    )
    hints.give()
  }
  await sleep(2_000)
  await paced(world, mixed, 10, 2)
  const beside = await paced(world, mixed, 10, 6)
  await world.sender.ask({ run: 'stop' })
  console.log(
    `isolation, 500 healthy webhooks: alone p99 ${before.p99.toFixed(1)} ms at ${Math.round(before.perSecond)}/s, beside 500 that hang p99 ${beside.p99.toFixed(1)} ms at ${Math.round(beside.perSecond)}/s (bar 1.5 times)`,
  )
}
