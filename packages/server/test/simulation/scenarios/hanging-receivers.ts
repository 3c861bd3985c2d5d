import type { OrgId } from '../../../src/lib/ids.ts'
import { startProcess } from '../process.ts'
import { createWorld } from '../world.ts'

const lanes = 100
const attemptMsMax = 15_000

/**
 * A hundred receivers that hang get an event at the same moment, and have another one waiting. Returns how many requests fall into
 * the busiest tenth of a second after the first deadline.
 */
export async function requestsAtOnceMax(seed: number): Promise<number> {
  const world = createWorld(seed, { laneConcurrencyMax: 1 })
  const { timeline, model, checks } = world
  Object.assign(world.limits, { inFlightMax: 1_000, lanesMax: 1_000 })
  world.attemptMsMax = attemptMsMax
  world.receive = () => ({ status: 'succeeded', latencyMs: Number.POSITIVE_INFINITY })
  const org = 'org_hanging' as OrgId
  for (let i = 0; i < lanes; i++) model.addLane(org)
  const startMs = timeline.now()
  const later: number[] = []
  const { sent } = checks
  checks.sent = (...request) => {
    if (timeline.now() > startMs + attemptMsMax) later.push(Math.floor(timeline.now() / 100))
    return sent(...request)
  }
  model.publish(org, { count: 2 })
  const { kill } = startProcess(world, 'process')
  await timeline.run(() => checks.violation !== null || later.length === lanes, 4 * attemptMsMax)
  kill()
  if (checks.violation !== null) throw new Error(checks.violation)
  if (later.length < lanes) throw new Error(`only ${later.length} second requests`)
  return Math.max(
    ...Map.groupBy(later, (tenth) => tenth)
      .values()
      .map((requests) => requests.length),
  )
}
