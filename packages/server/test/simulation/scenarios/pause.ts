import type { OrgId } from '../../../src/lib/ids.ts'
import { startProcess } from '../process.ts'
import { createWorld } from '../world.ts'

const org = 'org_one' as OrgId

/**
 * A busy webhook is paused, and events are published meanwhile. Returns the requests that leave later than half a second after the
 * pause began and before it ends, and how long after its end the first one leaves.
 */
export async function aroundPause({ resumed }: { resumed: boolean }): Promise<{ during: number; waitedMs: number }> {
  const world = createWorld(1)
  const { timeline, model, checks } = world
  world.receive = () => ({ status: 'succeeded', latencyMs: 30 })
  const lane = model.addLane(org)
  model.publish(org, { count: 500 })
  const { dispatcher, host, kill } = startProcess(world, 'process')
  await timeline.run(() => checks.requests.length > 20, 10_000)
  model.pause(lane, timeline.now() + 60_000)
  await timeline.run(() => false, 500)
  const before = checks.requests.length
  for (let i = 0; i < 10; i++) {
    model.publish(org)
    dispatcher.hint([org])
    await timeline.run(() => false, 1_000)
  }
  if (model.lanes.get(lane)!.owner !== null) throw new Error('the paused lane is still held')
  if (resumed) {
    model.resume(lane)
    timeline.after(1, () => dispatcher.hint([org]), host)
  } else await timeline.run(() => timeline.now() >= model.lanes.get(lane)!.pausedMs!, 60_000)
  const during = checks.requests.length - before
  const endMs = timeline.now()
  await timeline.run(() => checks.requests.length > before, 60_000)
  const waitedMs = timeline.now() - endMs
  await timeline.run(() => checks.violation !== null || checks.isFinished(), 60_000)
  kill()
  if (checks.violation !== null) throw new Error(checks.violation)
  if (!checks.isFinished()) throw new Error(checks.unfinished())
  return { during, waitedMs }
}
