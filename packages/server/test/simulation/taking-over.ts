import type { OrgId } from '../../src/kernel/ids.ts'
import { createChecks } from './checks.ts'
import { createModel } from './model.ts'
import { startProcess, type World } from './process.ts'
import { seededRandom } from './random.ts'
import { createTimeline } from './timeline.ts'

const org = 'org_one' as OrgId

/**
 * The news of an event is on its way to a process when the holder of another lane gives that lane back, with the event not
 * begun, and it is time to look for free lanes. Which events does the lane send, of this one and the next?
 */
export async function sentAfterTakingOver(): Promise<number[]> {
  const timeline = createTimeline(1_700_000_000_000)
  const model = createModel(timeline.now)
  const [ours, theirs] = [model.addLane(org), model.addLane(org)]
  let latencyMs = 1
  const world: World = {
    timeline,
    random: seededRandom(1),
    model,
    checks: createChecks(model, { laneWidthMax: 8, tries: 1 }),
    limits: { inFlightMax: 10, lanesMax: 100, laneWidthMax: 8, leaseMs: 30_000, pollMs: 100, drainMsMax: 0 },
    schedule: [0],
    attemptMsMax: 1_000,
    receive: () => ({ status: 'succeeded', latencyMs: 1 }),
    database: { isDown: false, latencyMs: () => latencyMs, lossChance: 0 },
    tellHolders() {},
    trace() {},
  }
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
  model.statements.release([{ laneId: theirs, token: held!.token, asked: 0, abandon: true }])
  latencyMs = 1
  await pass(200)
  model.publish(org)
  dispatcher.hint()
  await pass(2_000)
  return model.attempts.filter((one) => one.laneId === theirs).map((one) => one.eventSeq)
}
