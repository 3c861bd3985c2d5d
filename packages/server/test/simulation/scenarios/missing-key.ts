import type { OrgId } from '../../../src/lib/ids.ts'
import { startProcess } from '../process.ts'
import { createWorld } from '../world.ts'

const org = 'org_one' as OrgId

/**
 * A process dies with a request in flight. For two and a half minutes there is only a process that lacks the key of that webhook;
 * `leases` is how often it takes the lane. Then one with the key starts; `waitedMs` is how long the delivery takes there.
 */
export async function withMissingKey(): Promise<{ leases: number; waitedMs: number; attempts: string[] }> {
  const world = createWorld(1)
  const { timeline, model } = world
  world.limits.leaseMs = 30_000
  let leases = 0
  world.opens = (process) => {
    if (process !== 'without key') return true
    leases += 1
    return false
  }
  world.receive = () => ({ status: 'succeeded', latencyMs: 100 })
  model.addLane(org)
  model.publish(org)
  const dying = startProcess(world, 'dying')
  await timeline.run(() => model.inFlight.size === 1, 10_000)
  dying.kill()
  const without = startProcess(world, 'without key')
  await timeline.run(() => leases > 0, 60_000)
  await timeline.run(() => false, 150_000)
  const startMs = timeline.now()
  const having = startProcess(world, 'with key')
  const isDelivered = () => [...model.attempts.values()].some((one) => one.status === 'succeeded')
  await timeline.run(isDelivered, 120_000)
  for (const one of [without, having]) one.kill()
  return {
    leases,
    waitedMs: timeline.now() - startMs,
    attempts: Array.from(model.attempts.values(), (one) => one.status),
  }
}
