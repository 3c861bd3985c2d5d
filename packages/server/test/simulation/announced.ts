import type { OrgId } from '../../src/kernel/ids.ts'
import { startProcess } from './process.ts'
import { createScene } from './scene.ts'

const org = 'org_one' as OrgId

/**
 * What is said to the database until it is sent, settling left aside: of two events of which the later is announced first, of one by
 * itself, and of two in the wrong order once more.
 */
export async function saidForAnnounced(): Promise<{
  overtaken: string[]
  inOrder: string[]
  overtakenAgain: string[]
}> {
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
  let published = 0
  const announce = () => {
    published += 1
    return model.announce(org, [model.publish(org)])
  }
  /** Until all has been sent that there is. */
  const sent = async () => {
    await timeline.run(() => checks.requests.length === published, 10_000)
    const until = said
    await timeline.run(() => model.sendingOf(1).length === 0, 50)
    said = []
    return until
  }
  const inWrongOrder = async () => {
    const [late, early] = [announce(), announce()]
    dispatcher.hint([early])
    await timeline.run(() => said.length > 0, 1_000)
    dispatcher.hint([late])
    return sent()
  }
  // Takes the lane.
  dispatcher.hint([announce()])
  await sent()
  const overtaken = await inWrongOrder()
  dispatcher.hint([announce()])
  const inOrder = await sent()
  const overtakenAgain = await inWrongOrder()
  kill()
  return { overtaken, inOrder, overtakenAgain }
}
