import type { OrgId } from '../../../src/lib/ids.ts'
import { startProcess } from '../process.ts'
import { createWorld } from '../world.ts'

const org = 'org_one' as OrgId

/** Returns how long after its webhook was deleted a busy lane with a fast receiver still has requests in flight. */
export async function inFlightAfterDeletionMs(seed: number): Promise<number> {
  const world = createWorld(seed, { laneConcurrencyMax: 64 })
  const { timeline, random, model } = world
  const lane = model.addLane(org)
  Object.assign(world.limits, { inFlightMax: 1_000, leaseMs: 15_000 })
  world.receive = () => ({ status: 'succeeded', latencyMs: random.int(5, 40) })
  world.database.latencyMs = () => random.next() * 4
  model.publish(org, { count: 3_000 })
  const { dispatcher, kill } = startProcess(world, 'process')
  dispatcher.hint([org])
  await timeline.run(() => false, random.int(150, 350))
  model.end(lane)
  const endedMs = timeline.now()
  await timeline.run(() => model.inFlight.size === 0, 60_000)
  kill()
  return timeline.now() - endedMs
}

/**
 * A busy lane with a fast receiver. Its process is paused that long after it has begun attempts, and the webhook is deleted
 * meanwhile. Returns how many requests leave when the process continues, two seconds later.
 */
export async function sentAfterDeletion(pausedAfterMs: number): Promise<number> {
  const world = createWorld(pausedAfterMs)
  const { timeline, model, checks } = world
  world.receive = () => ({ status: 'succeeded', latencyMs: 10 })
  const lane = model.addLane(org)
  model.publish(org, { count: 200 })
  const { pause, kill } = startProcess(world, 'process')
  await timeline.run(() => model.inFlight.size > 0, 10_000)
  await timeline.run(() => false, pausedAfterMs)
  pause(2_000)
  const before = checks.requests.length
  await timeline.run(() => false, 100)
  model.end(lane)
  await timeline.run(() => false, 5_000)
  kill()
  if (before === 0) throw new Error('nothing was sent before')
  return checks.requests.length - before
}
