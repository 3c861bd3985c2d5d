import type { OrgId } from '../../../src/lib/ids.ts'
import { startProcess } from '../process.ts'
import { createWorld } from '../world.ts'

const attemptMsMax = 1_000
const pollMs = 100
const lanesMax = 1_000
const busy = 'org_busy' as OrgId
const small = 'org_small' as OrgId

/**
 * Many receivers of one organization hang and take all places of a process, with far more waiting. Returns the longest time that
 * an event of another organization waits for its first attempt. Its one receiver answers at once.
 */
export async function longestWaitMs(seed: number): Promise<number> {
  const world = createWorld(seed)
  const { timeline, random, model, checks } = world
  const inFlightMax = random.pick([4, 10, 40])
  // Now and then more lanes than a process may hold: if it took them all, there would be no place for others.
  const busyLanes = random.chance(0.2) ? lanesMax + 200 : inFlightMax * random.int(3, 12)
  for (let lanes = busyLanes; lanes > 0; lanes--) model.addLane(busy)
  const smallLane = model.addLane(small)
  Object.assign(world.limits, { inFlightMax, lanesMax, pollMs, drainMsMax: 0 })
  world.receive = (laneId) => {
    const latencyMs = laneId === smallLane ? random.int(1, 20) : Number.POSITIVE_INFINITY
    return { status: 'succeeded', latencyMs }
  }
  world.database.latencyMs = () => random.next() * 5
  const published: number[] = []
  const begun = new Map<number, number>()
  const { begin } = model.statements
  model.statements.begin = (attempts) => {
    for (const { laneId, eventSeq } of attempts) if (laneId === smallLane) begun.set(eventSeq, timeline.now())
    return begin(attempts)
  }
  model.publish(busy, { count: 20 })
  const { dispatcher, host, kill } = startProcess(world, 'process')
  for (let i = 0; i < 5; i++) {
    timeline.after(random.int(1_000, 8_000), () => {
      const [seq] = model.publish(small)
      published[seq!] = timeline.now()
      timeline.after(1, () => dispatcher.hint([small]), host)
    })
  }
  await timeline.run(() => checks.violation !== null || begun.size === 5, 120_000)
  kill()
  if (checks.violation !== null) throw new Error(checks.violation)
  const end = timeline.now()
  return Math.max(...published.flatMap((atMs, seq) => (begun.get(seq) ?? end) - atMs))
}

/** A place becomes free when an attempt reaches its deadline; the rest is for wake, lease, fetch and begin. */
export const fairWaitMs = attemptMsMax + 4 * pollMs
