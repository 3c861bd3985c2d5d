import type { OrgId } from '../../src/kernel/ids.ts'
import { startProcess } from './process.ts'
import { createScene } from './scene.ts'

const org = 'org_one' as OrgId

/**
 * PostgreSQL is started again, and has lost nothing, while one request is on its way and the next waits behind it. How long
 * after the first was answered is the second, with leases of a minute; and how many attempts did the two take?
 */
export async function acrossRestart(): Promise<{ waitedMs: number; attempts: number }> {
  const world = createScene(1)
  const { timeline, model } = world
  world.limits = { ...world.limits, laneWidthMax: 1, leaseMs: 60_000 }
  world.receive = () => ({ status: 'succeeded', latencyMs: 500 })
  const lane = model.addLane(org)
  for (let event = 1; event <= 2; event++) model.publish(org)
  const { kill } = startProcess(world, 'process')
  await timeline.run(() => model.sendingOf(lane).length === 1, 10_000)
  model.crash(() => 0, true)
  const settled = (count: number) => () => model.attempts.size === count
  await timeline.run(settled(1), 10_000)
  const answeredMs = timeline.now()
  await timeline.run(() => model.lanes.get(lane)!.cursorSeq === 2 && model.sendingOf(lane).length === 0, 120_000)
  kill()
  return { waitedMs: timeline.now() - answeredMs, attempts: model.attempts.size }
}
