import type { OrgId } from '../../../src/lib/ids.ts'
import { startProcess } from '../process.ts'
import { createWorld } from '../world.ts'

const org = 'org_one' as OrgId
const hourMs = 3_600_000
const eventsMax = 10_000

/**
 * A receiver fails for two days, in which 10,000 events are published, and then comes back; it may get 50 a second. The webhook is
 * suspended after a day. Returns the attempts of the second day, how long the events take once it is back, the most that begin in a
 * second then, and the order in which they begin.
 */
export async function failingForTwoDays(): Promise<{
  probes: number
  afterMs: number
  most: number
  isComplete: boolean
  order: number[]
}> {
  const world = createWorld(1, { schedule: [0, 5 * hourMs, 20 * hourMs, 24 * hourMs] })
  const { timeline, model, checks, limits } = world
  Object.assign(limits, { leaseMs: 60_000, pollMs: 1_000, probeMs: 59 * 60_000 })
  let isBack = false
  world.receive = () => ({ status: isBack ? 'succeeded' : 'failed', latencyMs: 20 })
  const lane = model.addLane(org)
  model.change(lane, 50)
  const startMs = timeline.now()
  let probes = 0
  // Without a process there may be no other step.
  const passUntil = async (ms: number) => {
    timeline.after(ms - timeline.now(), () => {})
    await timeline.run(() => timeline.now() >= ms, Number.POSITIVE_INFINITY)
  }
  // A process runs for the first minute of every hour: what is due later waits for the next one.
  for (let hour = 0; hour < 48; hour++) {
    await passUntil(startMs + hour * hourMs)
    if (hour === 24 && model.suspendFailing({ probeMs: 59 * 60_000, suspensionMs: 30 * 24 * hourMs }) !== 1) {
      throw new Error('it does not fail')
    }
    const before = checks.requests.length
    model.publish(org, { count: Math.ceil(eventsMax / 48) })
    const one = startProcess(world, `process ${hour}`)
    await timeline.run(() => false, 55_000)
    void one.stop()
    await timeline.run(() => one.host.stopped, 60_000)
    one.kill()
    if (hour >= 24) probes += checks.requests.length - before
  }
  isBack = true
  await passUntil(startMs + 48 * hourMs)
  const { kill } = startProcess(world, 'last process')
  const times: number[] = []
  const order: number[] = []
  const { begin } = model.statements
  model.statements.begin = (attempts) => {
    const answer = begin(attempts)
    for (const { attemptId, eventSeq } of attempts) {
      if (!answer.begun.has(attemptId)) continue
      times.push(timeline.now())
      order.push(eventSeq)
    }
    return answer
  }
  // The worker comes after a while.
  await timeline.run(() => model.lanes.get(lane)!.resumes, 2 * hourMs)
  await passUntil(timeline.now() + 2_000)
  if (model.endSuspensions() !== 1) throw new Error('no success has ended it')
  const backMs = timeline.now()
  await timeline.run(() => checks.violation !== null || checks.isFinished(), 2 * hourMs)
  kill()
  if (checks.violation !== null) throw new Error(checks.violation)
  if (!checks.isFinished()) throw new Error(`not finished: ${model.retries.size} retries wait`)
  checks.atTheEnd()
  if (checks.violation !== null) throw new Error(checks.violation)
  const firsts = [...model.attempts.values()].filter(({ attempt }) => attempt === 1).map(({ eventSeq }) => eventSeq)
  return {
    probes,
    afterMs: timeline.now() - backMs,
    most: mostInASecond(times),
    order,
    isComplete: firsts.length >= eventsMax && new Set(firsts).size === firsts.length,
  }
}

function mostInASecond(times: readonly number[]): number {
  let [most, from] = [0, 0]
  times.forEach((ms, i) => {
    while (times[from]! <= ms - 1_000) from += 1
    most = Math.max(most, i - from + 1)
  })
  return most
}
