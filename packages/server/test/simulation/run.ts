import type { RetrySchedule } from '../../src/delivery/retry-schedule.ts'
import type { OrgId } from '../../src/lib/ids.ts'
import { addFaults, troubleMs } from './faults.ts'
import type { Model } from './model.ts'
import { lateMsMax, type Process, startProcess } from './process.ts'
import type { Random } from './random.ts'
import { type Behaviour, createWorld } from './world.ts'

const schedule: RetrySchedule = [0, 500, 3_000, 6_000]
/** After the faults everything has to finish within this. */
const finishMsMax = 600_000

type Receiver = (random: Random) => Behaviour

const answer = (status: Behaviour['status'], latencyMs: number): Behaviour => ({ status, latencyMs })
const receivers: readonly Receiver[] = [
  (random) => answer('succeeded', random.int(1, 30)),
  (random) => answer('succeeded', random.int(100, 900)),
  (random) => answer(random.chance(0.5) ? 'failed' : 'succeeded', random.int(1, 200)),
  () => answer('failed', 5),
  () => answer('succeeded', Number.POSITIVE_INFINITY),
  (random) => answer('succeeded', random.chance(0.3) ? Number.POSITIVE_INFINITY : random.int(1, 100)),
  (random) => ({ ...answer('failed', 20), retryAfterMs: random.int(0, 20_000) }),
  (random) => (random.chance(0.2) ? { ...answer('failed', 10), gone: true } : answer('failed', 10)),
  (random) => ({ ...answer('succeeded', 10), connectMs: random.int(1, 900) }),
]

/** A bug that is put into the database on purpose, to see that the checks notice it. */
export type PlantedBug = (model: Model, random: Random) => void

export type RunOptions = { trace?: (line: string) => void; plant?: PlantedBug }

/** One run: some organizations, webhooks and processes, and the faults that the seed draws. Throws when a check fails. */
export async function runSeed(seed: number, { trace, plant }: RunOptions = {}): Promise<{ requests: number }> {
  const world = createWorld(seed, { schedule, laneConcurrencyMax: [1, 2, 8][seed % 3]! })
  const { timeline, random, model, checks, limits } = world
  const startMs = timeline.now()
  plant?.(model, random)
  const orgs = Array.from({ length: random.int(1, 4) }, (_, i) => `org_${i}` as OrgId)
  const kinds = new Map<number, Receiver>()
  for (const org of orgs) {
    for (let i = random.int(1, 4); i > 0; i--) kinds.set(model.addLane(org), random.pick(receivers))
  }
  limits.inFlightMax = random.pick([2, 10, 100])
  limits.lanesMax = random.pick([2, 100])
  limits.pollMs = random.pick([100, 400])
  limits.drainMsMax = random.pick([0, 1_000, 5_000])
  let isQuiet = false
  const slowness = random.pick([2, 20, 200])
  world.database.latencyMs = () =>
    !isQuiet && random.chance(0.02) ? random.int(0, slowness * 20) : random.next() * slowness
  world.database.lossChance = random.pick([0, 0.01, 0.1])
  world.receive = (laneId) => kinds.get(laneId)!(random)
  world.trace = (text) => trace?.(`${((timeline.now() - startMs) / 1_000).toFixed(4)} ${text}`)

  const processes: Process[] = []
  const start = () => void processes.push(startProcess(world, `process ${processes.length + 1}`))
  const living = () => processes.filter(({ host }) => host.alive && !host.stopped)
  /** Hints may be lost, late, doubled, or name an organization that has nothing to deliver. */
  const hint = (orgId: OrgId) => {
    for (const { dispatcher, host } of living()) {
      if (random.chance(0.3)) continue
      for (let times = random.chance(0.05) ? 2 : 1; times > 0; times--) {
        const ms = random.chance(0.8) ? 1 : random.int(1, 1_000)
        const given = random.chance(0.1) ? null : random.chance(0.1) ? [random.pick(orgs), 'org_x' as OrgId] : [orgId]
        timeline.after(ms, () => dispatcher.hint(given), host)
      }
    }
  }
  for (let i = random.int(1, 3); i > 0; i--) start()
  const { stopping } = addFaults({ world, orgs, processes, start, living, hint })
  timeline.after(troubleMs + 1, () => {
    isQuiet = true
  })

  /** Until it is so, or a check has failed. */
  async function until(isSo: () => boolean, msMax: number, otherwise: string): Promise<void> {
    const reached = await timeline.run(() => checks.violation !== null || isSo(), msMax)
    if (checks.violation !== null) throw new Error(checks.violation)
    if (!reached) throw new Error(`${otherwise}: ${checks.unfinished()}`)
  }
  const isFinished = () => isQuiet && checks.isFinished()
  await until(isFinished, troubleMs + finishMsMax, 'not every delivery is finished')
  // A lane without work is not looked at again.
  const isAtRest = () =>
    model.wakes.length === 0 && [...model.lanes.values()].every((lane) => lane.owner === null && lane.dueMs === null)
  await until(isAtRest, 10 * limits.leaseMs, 'lanes are still leased or due')
  // A late lease of a process that has stopped is left to expire.
  await timeline.run(() => false, lateMsMax)

  // All processes stop in the middle of work, and give their lanes back.
  for (const org of orgs) {
    model.publish(org)
    hint(org)
  }
  let haveStopped = false
  timeline.after(random.int(0, 500), async () => {
    const all = living().filter((one) => !stopping.has(one))
    await Promise.all(all.map((one) => one.stop()))
    haveStopped = true
  })
  await until(() => haveStopped, 60_000, 'stopping does not end')
  const stopped = new Set(processes.filter(({ host }) => host.stopped || !host.alive).map((one) => one.host.name))
  if ([...model.lanes.values()].some((lane) => lane.owner !== null && stopped.has(lane.owner))) {
    throw new Error(`lanes were not given back: ${checks.unfinished()}`)
  }
  start()
  await until(isFinished, finishMsMax, 'not every delivery is finished after the stop')
  checks.atTheEnd()
  if (checks.violation !== null) throw new Error(checks.violation)
  for (const one of living()) one.kill()
  return { requests: checks.requests.length }
}
