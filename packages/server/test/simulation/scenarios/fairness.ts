import type { OrgId } from '../../src/kernel/ids.ts'
import { createChecks } from './checks.ts'
import { createModel } from './model.ts'
import { startProcess, type World } from './process.ts'
import { seededRandom } from './random.ts'
import { createTimeline } from './timeline.ts'

const attemptMsMax = 1_000
const pollMs = 100
const lanesMax = 1_000
const busy = 'org_busy' as OrgId
const small = 'org_small' as OrgId

/**
 * An organization whose many receivers hang fills everything that a process may have in flight, with far more waiting. How
 * long does an event of another organization, with one webhook that answers at once, wait for its first attempt at most?
 */
export async function longestWaitMs(seed: number): Promise<number> {
  const random = seededRandom(seed)
  const timeline = createTimeline(1_700_000_000_000)
  const model = createModel(timeline.now)
  const checks = createChecks(model, { laneWidthMax: 8, tries: 1 })
  const inFlightMax = random.pick([4, 10, 40])
  // Now and then more than a process may hold: were they all taken, there would be no place for anybody else.
  const busyLanes = random.chance(0.2) ? lanesMax + 200 : inFlightMax * random.int(3, 12)
  for (let lanes = busyLanes; lanes > 0; lanes--) model.addLane(busy)
  const smallLane = model.addLane(small)
  const published: number[] = []
  const begun = new Map<number, number>()
  const world: World = {
    timeline,
    random,
    model,
    checks,
    limits: { inFlightMax, lanesMax, laneWidthMax: 8, leaseMs: 3_000, pollMs, drainMsMax: 0 },
    schedule: [0],
    attemptMsMax,
    receive(laneId) {
      if (laneId !== smallLane) return { status: 'succeeded', latencyMs: Number.POSITIVE_INFINITY }
      return { status: 'succeeded', latencyMs: random.int(1, 20) }
    },
    database: { isDown: false, latencyMs: () => random.next() * 5, lossChance: 0 },
    tellHolders() {},
    trace() {},
  }
  const { begin } = model.statements
  model.statements.begin = (beginnings) => {
    for (const { laneId, eventSeq } of beginnings.flatMap(({ fresh }) => fresh)) {
      if (laneId === smallLane) begun.set(eventSeq, timeline.now())
    }
    return begin(beginnings)
  }
  for (let i = 0; i < 20; i++) model.publish(busy)
  const { dispatcher, host, kill } = startProcess(world, 'process')
  for (let i = 0; i < 5; i++) {
    timeline.after(random.int(1_000, 8_000), () => {
      published[model.publish(small)] = timeline.now()
      timeline.after(1, () => dispatcher.hint(), host)
    })
  }
  await timeline.run(() => checks.violation !== null || begun.size === 5, 120_000)
  kill()
  if (checks.violation !== null) throw new Error(checks.violation)
  const end = timeline.now()
  return Math.max(...published.flatMap((atMs, seq) => (begun.get(seq) ?? end) - atMs))
}

/** A place becomes free when an attempt has reached its deadline; the rest is looking, leasing, reading and beginning. */
export const fairWaitMs = attemptMsMax + 4 * pollMs
