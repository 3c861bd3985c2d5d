import type { OrgId } from '../../src/kernel/ids.ts'
import { createChecks } from './checks.ts'
import { createModel } from './model.ts'
import { startProcess, type World } from './process.ts'
import { seededRandom } from './random.ts'
import { createTimeline } from './timeline.ts'

const org = 'org_one' as OrgId

/**
 * A process that is told to stop, with a request on its way, while PostgreSQL is away and stays away: how long after it said
 * that it has stopped does it still do something? As long as that, it would not end.
 */
export async function restlessMs(seed: number): Promise<number> {
  const random = seededRandom(seed)
  const timeline = createTimeline(1_700_000_000_000)
  const model = createModel(timeline.now)
  for (let lanes = 0; lanes < 4; lanes++) model.addLane(org)
  const world: World = {
    timeline,
    random,
    model,
    checks: createChecks(model, { laneWidthMax: 8, tries: 1 }),
    limits: { inFlightMax: 10, lanesMax: 100, laneWidthMax: 8, leaseMs: 3_000, pollMs: 100, drainMsMax: 1_000 },
    schedule: [0],
    attemptMsMax: 1_000,
    receive: () => ({ status: 'succeeded', latencyMs: random.int(1, 900) }),
    database: { isDown: false, latencyMs: () => random.next() * 20, lossChance: 0 },
    tellHolders() {},
    trace() {},
  }
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
