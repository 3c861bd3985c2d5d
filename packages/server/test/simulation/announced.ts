import type { OrgId } from '../../src/kernel/ids.ts'
import { startProcess } from './process.ts'
import { createScene } from './scene.ts'

const org = 'org_one' as OrgId

/**
 * Of the second event of a lane, and of the third, which is announced before it: what is said to the database until it is sent, settling left
 * aside? */
export async function saidForAnnounced(): Promise<{ inOrder: string[]; overtaken: string[] }> {
  const world = createScene(1)
  world.limits = { ...world.limits, pollMs: 60_000 }
  const { timeline, model, checks } = world
  model.addLane(org)
  let said: string[] = []
  world.trace = (text) => {
    const [, what] = /^process (\w+) \[/.exec(text) ?? []
    if (what !== undefined && what !== 'settle') said.push(what)
  }
  const { dispatcher, kill } = startProcess(world, 'process')
  const announce = () => model.announce(org, model.publish(org))
  const sent = (count: number) => timeline.run(() => checks.requests.length === count, 10_000)
  const settled = () => timeline.run(() => model.sendingOf(1).length === 0, 50)
  dispatcher.hint([announce()])
  await sent(1)
  await settled()
  said = []
  dispatcher.hint([announce()])
  await sent(2)
  const inOrder = said
  await settled()
  const [late, early] = [announce(), announce()]
  said = []
  dispatcher.hint([early])
  await timeline.run(() => said.length > 0, 1_000)
  dispatcher.hint([late])
  await sent(4)
  kill()
  return { inOrder, overtaken: said }
}
