import type { OrgId } from '../../src/kernel/ids.ts'
import { startProcess } from './process.ts'
import { createScene } from './scene.ts'

const lanes = 100
const attemptMsMax = 15_000

/**
 * A hundred receivers that hang get an event at the same moment, and have another one waiting. How many requests fall into
 * the busiest tenth of a second after the first deadline?
 */
export async function busiestMoment(seed: number): Promise<number> {
  const scene = { ...createScene(seed), attemptMsMax }
  const { timeline, model, checks } = scene
  scene.limits = { ...scene.limits, inFlightMax: 1_000, lanesMax: 1_000, laneWidthMax: 1 }
  scene.receive = () => ({ status: 'succeeded', latencyMs: Number.POSITIVE_INFINITY })
  const org = 'org_hanging' as OrgId
  for (let i = 0; i < lanes; i++) model.addLane(org)
  const beganMs = timeline.now()
  const later: number[] = []
  const { sent } = checks
  checks.sent = (...request) => {
    if (timeline.now() > beganMs + attemptMsMax) later.push(Math.floor(timeline.now() / 100))
    return sent(...request)
  }
  for (let i = 0; i < 2; i++) model.publish(org)
  const { kill } = startProcess(scene, 'process')
  await timeline.run(() => checks.violation !== null || later.length === lanes, 4 * attemptMsMax)
  kill()
  if (checks.violation !== null) throw new Error(checks.violation)
  return Math.max(
    ...Map.groupBy(later, (moment) => moment)
      .values()
      .map((requests) => requests.length),
  )
}
