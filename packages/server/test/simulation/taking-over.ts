import type { OrgId } from '../../src/kernel/ids.ts'
import { startProcess } from './process.ts'
import { createScene } from './scene.ts'

const org = 'org_one' as OrgId

/**
 * The news of an event is on its way to a process when the holder of another lane gives that lane back, with the event not
 * begun, and it is time to look for free lanes. Which events does the lane send, of this one and the next?
 */
export async function sentAfterTakingOver(): Promise<number[]> {
  const world = createScene(1)
  const { timeline, model } = world
  const [ours, theirs] = [model.addLane(org), model.addLane(org)]
  let latencyMs = 1
  world.database.latencyMs = () => latencyMs
  const pass = (ms: number) => timeline.run(() => false, ms)
  model.lanes.get(theirs)!.dueMs = 0
  const [held] = model.statements.lease({ owner: 'another', lanesMax: 1, leaseMs: 60_000 })
  model.lanes.get(ours)!.dueMs = 0
  const { dispatcher } = startProcess(world, 'process')
  await pass(250)
  latencyMs = 200
  model.publish(org)
  dispatcher.hint()
  // The news has been read and is on its way back.
  await pass(250)
  model.statements.release([{ laneId: theirs, token: held!.token, asked: 0, begunNo: 0, settled: true, abandon: true }])
  latencyMs = 1
  await pass(200)
  model.publish(org)
  dispatcher.hint()
  await pass(2_000)
  return [...model.attempts.values()].filter((one) => one.laneId === theirs).map((one) => one.eventSeq)
}
