import type { OrgId } from '../../../src/lib/ids.ts'
import { type Process, startProcess } from '../process.ts'
import { createWorld, type World } from '../world.ts'

const org = 'org_one' as OrgId

async function stop({ timeline }: World, { dispatcher }: Process): Promise<void> {
  let isStopped = false
  const stopping = dispatcher.stop().then(() => {
    isStopped = true
  })
  await timeline.run(() => isStopped, 60_000)
  if (!isStopped) throw new Error('stopping does not end')
  await stopping
}

/** A process stops while PostgreSQL cannot be reached and requests are in flight. Returns how long after its stop it still has timers. */
export async function activeAfterStopMs(seed: number): Promise<number> {
  const world = createWorld(seed)
  const { timeline, random, model } = world
  world.receive = () => ({ status: 'succeeded', latencyMs: random.int(1, 900) })
  world.database.latencyMs = () => random.next() * 20
  for (let lanes = 0; lanes < 4; lanes++) model.addLane(org)
  model.publish(org, { count: 20 })
  const process = startProcess(world, 'process')
  await timeline.run(() => process.dispatcher.inFlight > 0, 60_000)
  await timeline.run(() => false, random.int(0, 300))
  world.database.isDown = true
  await timeline.run(() => false, random.int(0, 500))
  await stop(world, process)
  const stoppedMs = timeline.now()
  await timeline.run(() => false, 3_600_000)
  return timeline.now() - stoppedMs
}

/** A process stops while one of its lanes is locked and has work. Returns which of the other lanes it still holds afterwards. */
export async function heldBesideLocked(seed: number): Promise<number[]> {
  const world = createWorld(seed)
  const { timeline, random, model } = world
  world.receive = () => ({ status: 'succeeded', latencyMs: random.int(1, 100) })
  const lanes = Array.from({ length: 4 }, () => model.addLane(org))
  model.publish(org)
  const process = startProcess(world, 'process')
  await timeline.run(() => process.dispatcher.lanes === lanes.length, 60_000)
  const locked = random.pick(lanes)
  model.locked.add(locked)
  for (let events = 0; events < 5; events++) model.publish(org)
  await timeline.run(() => false, random.int(200, 900))
  await stop(world, process)
  return lanes.filter((id) => id !== locked && model.lanes.get(id)!.owner !== null)
}
