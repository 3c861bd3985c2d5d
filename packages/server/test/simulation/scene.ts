import { createChecks } from './checks.ts'
import { createModel } from './model.ts'
import type { World } from './process.ts'
import { seededRandom } from './random.ts'
import { createTimeline } from './timeline.ts'

/** A small world in which all is well, for a story that is told by hand. */
export function createScene(seed: number, { schedule = [0] as World['schedule'] } = {}): World {
  const random = seededRandom(seed)
  const timeline = createTimeline(1_700_000_000_000)
  const model = createModel(timeline.now)
  return {
    timeline,
    random,
    model,
    checks: createChecks(model, { laneWidthMax: 8, tries: schedule.length }),
    limits: { inFlightMax: 10, lanesMax: 100, laneWidthMax: 8, leaseMs: 3_000, pollMs: 100, drainMsMax: 1_000 },
    schedule,
    attemptMsMax: 1_000,
    receive: () => ({ status: 'succeeded', latencyMs: 1 }),
    database: { isDown: false, latencyMs: () => 1, lossChance: 0 },
    tellHolders() {},
    trace() {},
  }
}
