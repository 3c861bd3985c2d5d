import type { OrgId } from '../../src/kernel/ids.ts'
import { startProcess } from './process.ts'
import { createScene } from './scene.ts'

const org = 'org_one' as OrgId

/** A webhook gets an event so often, and failed at the first: how long after that is it sent again? Due after 3 s. */
export async function retriedAfterMs(everyMs: number): Promise<number> {
  const world = createScene(1, { schedule: [0, 3_000] })
  const { timeline, model } = world
  model.addLane(org)
  let answers = 0
  world.receive = () => ({ status: answers++ === 0 ? 'failed' : 'succeeded', latencyMs: 1 })
  const { dispatcher } = startProcess(world, 'process')
  const beganMs = timeline.now()
  const isRetried = () => [...model.attempts.values()].some((one) => one.eventSeq === 1 && one.attempt === 2)
  while (!isRetried() && timeline.now() < beganMs + 60_000) {
    model.publish(org)
    dispatcher.hint()
    await timeline.run(() => false, everyMs)
  }
  return timeline.now() - beganMs
}
