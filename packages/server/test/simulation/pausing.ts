import type { OrgId } from '../../src/kernel/ids.ts'
import { startProcess } from './process.ts'
import { createScene } from './scene.ts'

const org = 'org_one' as OrgId

/**
 * A busy lane with a quick receiver. Its process is paused so long after it has begun, and while it is the webhook is deleted.
 * How many requests leave when it goes on, two seconds later?
 */
export async function sentLate(afterMs: number): Promise<number> {
  const world = createScene(afterMs)
  const { timeline, model, checks } = world
  world.receive = () => ({ status: 'succeeded', latencyMs: 10 })
  const lane = model.addLane(org)
  for (let event = 1; event <= 200; event++) model.publish(org)
  const { pause, kill } = startProcess(world, 'process')
  await timeline.run(() => model.sendingOf(lane).length > 0, 10_000)
  await timeline.run(() => false, afterMs)
  pause(2_000)
  const before = checks.requests.length
  await timeline.run(() => false, 100)
  model.end(lane)
  await timeline.run(() => false, 5_000)
  kill()
  return checks.requests.length - before
}

/** PostgreSQL takes 800 ms for every statement. How long do thirty deliveries take, and how many attempts? */
export async function deliveredSlowly(): Promise<{ ms: number; attempts: number; requests: number }> {
  const world = createScene(1)
  const { timeline, model, checks } = world
  world.database.latencyMs = () => 400
  world.limits = { ...world.limits, leaseMs: 60_000 }
  model.addLane(org)
  for (let event = 1; event <= 30; event++) model.publish(org)
  const { kill } = startProcess(world, 'process')
  const beganMs = timeline.now()
  await timeline.run(checks.isFinished, 60_000)
  kill()
  return { ms: timeline.now() - beganMs, attempts: model.attempts.size, requests: checks.requests.length }
}
