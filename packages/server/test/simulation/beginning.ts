import type { OrgId } from '../../src/kernel/ids.ts'
import { startProcess } from './process.ts'
import { createScene } from './scene.ts'

/**
 * While the event of a lane begins, which takes so long, so many other lanes get one. How long after it do they begin, as the
 * database sees it?
 */
export async function secondBeginsAfterMs(others: number, takesMs: number): Promise<number> {
  const world = createScene(1)
  world.limits = { ...world.limits, inFlightMax: 1_000, pollMs: 60_000 }
  const { timeline, model } = world
  const orgs = Array.from({ length: others + 1 }, (_, i) => `org_${i}` as OrgId)
  for (const org of orgs) model.addLane(org)
  const { dispatcher, kill } = startProcess(world, 'process')
  const announced = (some: readonly OrgId[]) => some.map((org) => model.announce(org, [model.publish(org)]))
  // Takes the lanes.
  dispatcher.hint(announced(orgs))
  await timeline.run(() => false, 500)
  const begun: number[] = []
  const { begin } = model.statements
  model.statements.begin = (beginnings) => {
    begun.push(timeline.now())
    return begin(beginnings)
  }
  world.database.latencyMs = () => takesMs / 2
  dispatcher.hint(announced(orgs.slice(0, 1)))
  await timeline.run(() => false, 1)
  dispatcher.hint(announced(orgs.slice(1)))
  await timeline.run(() => false, 500)
  kill()
  return Math.round(begun[1]! - begun[0]!)
}
