import type { OrgId } from '../../../src/lib/ids.ts'
import { startProcess } from '../process.ts'
import { createWorld } from '../world.ts'

const limited = 'org_limited' as OrgId
const other = 'org_other' as OrgId

/**
 * A webhook with a limit and a long queue, and one without in a process with few places. Returns the most deliveries that begin in
 * any second, how many begin in a second on average, and how long the other webhook's event waits.
 */
export async function withRateLimit(rateLimit: number) {
  const world = createWorld(1)
  const { timeline, model } = world
  Object.assign(world.limits, { inFlightMax: 2 })
  const lane = model.addLane(limited)
  model.addLane(other)
  model.change(lane, rateLimit)
  const times: number[] = []
  let otherMs = Number.POSITIVE_INFINITY
  const { begin } = model.statements
  model.statements.begin = (attempts) => {
    const answer = begin(attempts)
    for (const { laneId, attemptId } of attempts) {
      if (!answer.begun.has(attemptId)) continue
      if (laneId === lane) times.push(timeline.now())
      else otherMs = timeline.now()
    }
    return answer
  }
  model.publish(limited, { count: rateLimit * 30 })
  const { dispatcher, host, kill } = startProcess(world, 'process')
  await timeline.run(() => false, 10_000)
  model.publish(other)
  const publishedMs = timeline.now()
  timeline.after(1, () => dispatcher.hint([other]), host)
  await timeline.run(() => false, 10_000)
  kill()
  const inSecond = times.map((from) => times.filter((ms) => ms >= from && ms < from + 1_000).length)
  const seconds = (times.at(-1)! - times[0]!) / 1_000
  return { most: Math.max(...inSecond), average: (times.length - 1) / seconds, waitedMs: otherMs - publishedMs }
}

/** An event every four seconds, for which the lane is leased anew; one in ten seconds may be sent. Returns how many are in 100 s. */
export async function sentAcrossLeases(): Promise<{ sent: number; leases: number }> {
  const world = createWorld(1)
  const { timeline, model, checks } = world
  const lane = model.addLane(limited)
  model.change(lane, 0.1)
  const { dispatcher, kill } = startProcess(world, 'process')
  let leases = 0
  const { lease } = model.statements
  model.statements.lease = (request) => {
    const leased = lease(request)
    leases += leased.length
    return leased
  }
  for (let i = 0; i < 25; i++) {
    model.publish(limited)
    dispatcher.hint([limited])
    await timeline.run(() => false, 4_000)
  }
  kill()
  return { sent: checks.requests.length, leases }
}

/** A webhook that may get one delivery in ten seconds has two to get. Returns when the second is sent after its limit is lifted. */
export async function sentAfterChangeMs(): Promise<number> {
  const world = createWorld(1)
  const { timeline, model, checks } = world
  const lane = model.addLane(limited)
  model.change(lane, 0.1)
  model.publish(limited, { count: 2 })
  const { kill } = startProcess(world, 'process')
  await timeline.run(() => checks.requests.length === 1, 10_000)
  await timeline.run(() => false, 1_000)
  model.change(lane, null)
  const changedMs = timeline.now()
  await timeline.run(() => checks.requests.length === 2, 10_000)
  kill()
  return timeline.now() - changedMs
}
