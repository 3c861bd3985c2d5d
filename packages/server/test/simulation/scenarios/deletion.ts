import type { OrgId } from '../../src/kernel/ids.ts'
import { startProcess } from './process.ts'
import { createScene } from './scene.ts'

const org = 'org_one' as OrgId

/** How long after its webhook was deleted a busy lane with a quick receiver still has something on its way. */
export async function departingMs(seed: number): Promise<number> {
  const world = createScene(seed)
  const { timeline, random, model } = world
  const lane = model.addLane(org)
  Object.assign(world.limits, { inFlightMax: 1_000, laneWidthMax: 64, leaseMs: 15_000 })
  world.receive = () => ({ status: 'succeeded', latencyMs: random.int(5, 40) })
  world.database.latencyMs = () => random.next() * 4
  for (let i = 0; i < 3_000; i++) model.publish(org)
  const { dispatcher, kill } = startProcess(world, 'process')
  dispatcher.hint()
  await timeline.run(() => false, random.int(150, 350))
  model.end(lane)
  const endedMs = timeline.now()
  await timeline.run(() => model.sendingOf(lane).length === 0, 60_000)
  const ms = timeline.now() - endedMs
  kill()
  return ms
}
