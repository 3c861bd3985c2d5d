import type { OrgId } from '../../../src/lib/ids.ts'
import { startProcess } from '../process.ts'
import { createWorld } from '../world.ts'

const org = 'org_one' as OrgId

/**
 * PostgreSQL restarts without loss while one request is in flight and the next delivery waits. Leases last a minute. Returns how
 * long after the first answer the second delivery is finished, and how many attempts the two took.
 */
export async function acrossRestart(): Promise<{ waitedMs: number; attempts: number }> {
  const world = createWorld(1, { laneConcurrencyMax: 1 })
  const { timeline, model, checks } = world
  world.limits.leaseMs = 60_000
  world.receive = () => ({ status: 'succeeded', latencyMs: 500 })
  model.addLane(org)
  for (let event = 1; event <= 2; event++) model.publish(org)
  const { kill } = startProcess(world, 'process')
  await timeline.run(() => model.inFlight.size === 1, 10_000)
  model.crash(() => 0, true)
  await timeline.run(() => model.attempts.size === 1, 10_000)
  const answeredMs = timeline.now()
  await timeline.run(checks.isFinished, 120_000)
  kill()
  return { waitedMs: timeline.now() - answeredMs, attempts: model.attempts.size }
}

/** PostgreSQL takes 800 ms for every statement. Returns attempts and requests of thirty deliveries. */
export async function withSlowDatabase(): Promise<{ attempts: number; requests: number }> {
  const world = createWorld(1)
  const { timeline, model, checks } = world
  world.database.latencyMs = () => 400
  world.limits.leaseMs = 60_000
  model.addLane(org)
  model.publish(org, { count: 30 })
  const { kill } = startProcess(world, 'process')
  await timeline.run(checks.isFinished, 120_000)
  kill()
  return { attempts: model.attempts.size, requests: checks.requests.length }
}

/**
 * A standby takes over that lacks the last event and its delivery, while the old request is in flight, and gives the number to
 * another event. Returns the events that the receiver got.
 */
export async function acrossFailover(): Promise<{ received: string[]; recorded: number }> {
  const world = createWorld(1)
  const { timeline, model, checks } = world
  world.receive = () => ({ status: 'succeeded', latencyMs: 500 })
  model.addLane(org)
  model.publish(org)
  const { dispatcher, kill } = startProcess(world, 'process')
  await timeline.run(checks.isFinished, 10_000)
  const promote = model.standby()
  model.publish(org)
  dispatcher.hint([org])
  await timeline.run(() => checks.requests.length === 2, 10_000)
  promote()
  checks.promoted()
  model.publish(org)
  await timeline.run(checks.isFinished, 60_000)
  kill()
  if (checks.violation !== null) throw new Error(checks.violation)
  return { received: checks.requests.map((one) => one.eventId), recorded: model.attempts.size }
}

/**
 * The database cannot store the outcome of one attempt: not with the response, and for ten seconds not without it. Returns how
 * long the other deliveries took, of the same lane and another one, and how long that one took.
 */
export async function withUnstorableAttempt(): Promise<{ othersMs: number; itsMs: number }> {
  const world = createWorld(1)
  const { timeline, model, checks } = world
  const startMs = timeline.now()
  const isIts = (one: { laneId: number; eventSeq: number }) => one.laneId === 1 && one.eventSeq === 3
  world.isUnstorable = ({ attempt, outcome }) =>
    isIts(attempt) && (outcome.error?.detail !== null || timeline.now() < startMs + 10_000)
  world.receive = () => ({ status: 'failed', latencyMs: 5 })
  for (let lanes = 0; lanes < 2; lanes++) model.addLane(org)
  model.publish(org, { count: 20 })
  const { kill } = startProcess(world, 'process')
  await timeline.run(() => model.attempts.size === 39, 60_000)
  const othersMs = timeline.now() - startMs
  await timeline.run(checks.isFinished, 60_000)
  kill()
  if (checks.violation !== null) throw new Error(checks.violation)
  return { othersMs, itsMs: timeline.now() - startMs }
}

/**
 * The partition for an attempt's outcome is missing, because the clock of its process was wrong. With `dies`, the process dies and
 * another takes over. Returns how long the delivery takes.
 */
export async function withMissingPartition({ dies }: { dies: boolean }): Promise<number> {
  const world = createWorld(1)
  const { timeline, model, checks } = world
  const startMs = timeline.now()
  world.receive = () => ({ status: 'succeeded', latencyMs: 500 })
  model.addLane(org)
  model.publish(org)
  const first = startProcess(world, 'first')
  await timeline.run(() => model.inFlight.size === 1, 10_000)
  world.database.lacksPartition = true
  if (dies) first.kill()
  const second = startProcess(world, 'second')
  await timeline.run(checks.isFinished, 60_000)
  for (const one of [first, second]) one.kill()
  return timeline.now() - startMs
}
