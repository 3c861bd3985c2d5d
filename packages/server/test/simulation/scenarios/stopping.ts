import type { OrgId } from '../../src/kernel/ids.ts'
import { startProcess } from './process.ts'
import { createScene } from './scene.ts'

const org = 'org_one' as OrgId

/**
 * A process that is told to stop, with requests on their way, while PostgreSQL is away and stays away: how long after it said
 * that it has stopped does it still do something? As long as that, it would not end.
 */
export async function restlessMs(seed: number): Promise<number> {
  const world = createScene(seed)
  const { timeline, random, model } = world
  world.receive = () => ({ status: 'succeeded', latencyMs: random.int(1, 900) })
  world.database.latencyMs = () => random.next() * 20
  for (let lanes = 0; lanes < 4; lanes++) model.addLane(org)
  for (let events = 0; events < 20; events++) model.publish(org)
  const { dispatcher } = startProcess(world, 'process')
  await timeline.run(() => dispatcher.inFlight > 0, 60_000)
  await timeline.run(() => false, random.int(0, 300))
  world.database.isDown = true
  await timeline.run(() => false, random.int(0, 500))
  let stopped = false
  const stopping = dispatcher.stop().then(() => {
    stopped = true
  })
  await timeline.run(() => stopped, 60_000)
  await stopping
  const stoppedMs = timeline.now()
  await timeline.run(() => false, 3_600_000)
  return timeline.now() - stoppedMs
}

/**
 * A process that is told to stop while somebody else has one of its lanes locked, with something to begin there: which of the
 * other lanes does it still hold when it says that it has stopped? Nobody could take those before their leases run out.
 */
export async function keptBesideLocked(seed: number): Promise<number[]> {
  const world = createScene(seed)
  const { timeline, random, model } = world
  world.receive = () => ({ status: 'succeeded', latencyMs: random.int(1, 100) })
  const lanes = Array.from({ length: 4 }, () => model.addLane(org))
  model.publish(org)
  const { dispatcher } = startProcess(world, 'process')
  await timeline.run(() => dispatcher.lanes === lanes.length, 60_000)
  const locked = random.pick(lanes)
  model.locked.add(locked)
  for (let events = 0; events < 5; events++) model.publish(org)
  await timeline.run(() => false, random.int(200, 900))
  let stopped = false
  const stopping = dispatcher.stop().then(() => {
    stopped = true
  })
  await timeline.run(() => stopped, 60_000)
  await stopping
  return lanes.filter((id) => id !== locked && model.lanes.get(id)!.owner !== null)
}
