import type { OrgId } from '../../src/kernel/ids.ts'
import { startProcess } from './process.ts'
import { createScene } from './scene.ts'

const org = 'org_one' as OrgId

/**
 * A receiver that answers slowly and never well, one request at a time. Two deliveries have failed once, and both retries are
 * due: while the first is on its way, with the second read and waiting behind it, a redelivery of the second is asked for.
 * How many attempts does the second get, of a schedule of two tries?
 */
export async function attemptsAfterAskingAgain(): Promise<number> {
  const world = createScene(1, { schedule: [0, 10_000] })
  const { timeline, model, checks } = world
  world.limits = { ...world.limits, laneWidthMax: 1 }
  world.receive = () => ({ status: 'failed', latencyMs: 500 })
  const lane = model.addLane(org)
  for (let event = 1; event <= 2; event++) model.publish(org)
  const { kill } = startProcess(world, 'process')
  const of = (eventSeq: number) => [...model.attempts.values()].filter((one) => one.eventSeq === eventSeq).length
  await timeline.run(() => of(2) === 1, 10_000)
  for (const retry of model.retries.values()) retry.dueMs = timeline.now()
  // The first is being sent, and the second has been read with it.
  await timeline.run(() => model.sendingOf(lane).some((one) => one.eventSeq === 1 && one.attempt === 2), 10_000)
  await timeline.run(() => false, 50)
  if (!model.redeliver(lane, 2)) throw new Error('the second is on its way already')
  const isDone = () => model.retries.size === 0 && model.sendingOf(lane).length === 0
  await timeline.run(() => checks.violation !== null || isDone(), 60_000)
  kill()
  return of(2)
}
