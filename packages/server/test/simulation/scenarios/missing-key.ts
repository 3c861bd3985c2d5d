import type { OrgId } from '../../src/kernel/ids.ts'
import { startProcess } from './process.ts'
import { createScene } from './scene.ts'

const org = 'org_one' as OrgId

/**
 * A process dies with a request on its way, and for two and a half minutes there is only one that lacks the key of that webhook.
 * How often does it take the lane? Then one comes that has the key: how long does the delivery take there?
 */
export async function whereAKeyIsMissing(): Promise<{ looks: number; waitedMs: number; attempts: string[] }> {
  const world = createScene(1)
  const { timeline, model } = world
  world.limits = { ...world.limits, leaseMs: 30_000 }
  let looks = 0
  world.opens = (process) => {
    if (process !== 'without') return true
    looks += 1
    return false
  }
  world.receive = () => ({ status: 'succeeded', latencyMs: 100 })
  const lane = model.addLane(org)
  model.publish(org)
  const dying = startProcess(world, 'dying')
  await timeline.run(() => model.sendingOf(lane).length === 1, 10_000)
  dying.kill()
  const without = startProcess(world, 'without')
  await timeline.run(() => looks > 0, 60_000)
  await timeline.run(() => false, 150_000)
  const beganMs = timeline.now()
  const having = startProcess(world, 'having')
  const isDelivered = () => [...model.attempts.values()].some((one) => one.status === 'succeeded')
  await timeline.run(isDelivered, 120_000)
  for (const one of [without, having]) one.kill()
  return {
    looks,
    waitedMs: timeline.now() - beganMs,
    attempts: Array.from(model.attempts.values(), (one) => one.status),
  }
}
