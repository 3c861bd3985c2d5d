import type { OrgId } from '../../../src/lib/ids.ts'
import { startProcess } from '../process.ts'
import { createWorld } from '../world.ts'

const org = 'org_one' as OrgId

/** A webhook gets an event that often, and the first attempt of the first one failed. Returns when it is retried; it is due after 3 s. */
export async function retriedAfterMs(everyMs: number): Promise<number> {
  const world = createWorld(1, { schedule: [0, 3_000] })
  const { timeline, model } = world
  model.addLane(org)
  let answers = 0
  world.receive = () => ({ status: answers++ === 0 ? 'failed' : 'succeeded', latencyMs: 1 })
  const { dispatcher, kill } = startProcess(world, 'process')
  const startMs = timeline.now()
  const isRetried = () => [...model.attempts.values()].some((one) => one.eventSeq === 1 && one.attempt === 2)
  while (!isRetried() && timeline.now() < startMs + 60_000) {
    model.publish(org)
    dispatcher.hint([org])
    await timeline.run(() => false, everyMs)
  }
  kill()
  return timeline.now() - startMs
}

/**
 * A receiver that always fails, with one request at a time. Two deliveries have failed once and both retries are due. While the
 * first is in flight and the second was read, a redelivery of the second is requested. Returns its attempts, of a schedule of two.
 */
export async function attemptsAfterRedelivery(): Promise<number> {
  const world = createWorld(1, { schedule: [0, 10_000], laneConcurrencyMax: 1 })
  const { timeline, model, checks } = world
  world.receive = () => ({ status: 'failed', latencyMs: 500 })
  const lane = model.addLane(org)
  for (let event = 1; event <= 2; event++) model.publish(org)
  const { kill } = startProcess(world, 'process')
  const attemptsOf = (eventSeq: number) =>
    [...model.attempts.values()].filter((one) => one.eventSeq === eventSeq).length
  await timeline.run(() => attemptsOf(2) === 1, 10_000)
  for (const retry of model.retries.values()) retry.dueMs = timeline.now()
  const isFirstInFlight = () => model.inFlightOf(lane).some((one) => one.eventSeq === 1 && one.attempt === 2)
  await timeline.run(isFirstInFlight, 10_000)
  await timeline.run(() => false, 50)
  if (!model.redeliver(lane, 2)) throw new Error('the second is in flight already')
  await timeline.run(() => checks.violation !== null || checks.isFinished(), 60_000)
  kill()
  return attemptsOf(2)
}
