import type { RetrySchedule } from '../../src/domain/retry-schedule.ts'
import type { OrgId } from '../../src/kernel/ids.ts'
import type { Announcement } from '../../src/store/delivery/announcements.ts'
import { createChecks } from './checks.ts'
import { createModel, type Statements } from './model.ts'
import { type Behaviour, lateMsMax, type Process, startProcess, type World } from './process.ts'
import { type Random, seededRandom } from './random.ts'
import { createTimeline } from './timeline.ts'

const schedule: RetrySchedule = [0, 500, 3_000, 6_000]
const leaseMs = 3_000
const attemptMsMax = 1_000
/** Publishing and faults happen within this; afterwards there is peace, and everything has to come to its end. */
const troubleMs = 15_000
const peaceMsMax = 600_000

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
]

export type Told = { requests: number; simulatedMs: number }

/** A fault that is put into the database on purpose, to see that the checks notice. */
export type Plant = (statements: Statements, random: Random) => void

/** One run: some organizations, some webhooks, some processes, and whatever the seed has go wrong. */
export async function tell(
  seed: number,
  { trace, plant }: { trace?: (line: string) => void; plant?: Plant } = {},
): Promise<Told> {
  const random = seededRandom(seed)
  const timeline = createTimeline(1_700_000_000_000)
  const beganMs = timeline.now()
  const model = createModel(timeline.now)
  plant?.(model.statements, random)
  const laneWidthMax = random.pick([1, 2, 8])
  const checks = createChecks(model, { laneWidthMax, tries: schedule.length })
  const orgs = Array.from({ length: random.int(1, 4) }, (_, i) => `org_${i}` as OrgId)
  const kinds = new Map<number, Receiver>()
  for (const org of orgs) {
    for (let i = random.int(1, 4); i > 0; i--) kinds.set(model.addLane(org), random.pick(receivers))
  }
  const slowness = random.pick([2, 20, 200])
  let quiet = false
  const processes: Process[] = []
  const world: World = {
    timeline,
    random,
    model,
    checks,
    limits: {
      inFlightMax: random.pick([2, 10, 100]),
      lanesMax: random.pick([2, 100]),
      laneWidthMax,
      leaseMs,
      pollMs: random.pick([100, 400]),
      drainMsMax: random.pick([0, 1_000, 5_000]),
    },
    schedule,
    attemptMsMax,
    receive: (laneId) => kinds.get(laneId)!(random),
    database: {
      isDown: false,
      latencyMs: () => (!quiet && random.chance(0.02) ? random.int(0, slowness * 20) : random.next() * slowness),
      lossChance: random.pick([0, 0.01, 0.1]),
    },
    trace: (text) => trace?.(`${((timeline.now() - beganMs) / 1_000).toFixed(4)} ${text}`),
    tellHolders(from) {
      for (const one of processes) {
        if (one.host !== from && random.chance(0.7)) timeline.after(5, () => one.dispatcher.hintHeld(), one.host)
      }
    },
  }
  const note = world.trace
  let names = 0
  const start = () => void processes.push(startProcess(world, `process ${++names}`))
  const living = () => processes.filter((one) => one.host.alive)
  const hint = (announcement?: Announcement) => {
    for (const one of living()) {
      if (random.chance(0.3)) continue
      const isAnnounced = announcement !== undefined && random.chance(0.8)
      // Another may overtake it, and the server that it is of be gone when it arrives. Now and then it comes twice.
      for (let times = random.chance(0.05) ? 2 : 1; times > 0; times--) {
        const ms = random.chance(0.8) ? 1 : random.int(1, 1_000)
        timeline.after(ms, () => one.dispatcher.hint(isAnnounced ? [announcement] : null), one.host)
      }
    }
  }
  const lanesOf = (orgId: OrgId) => [...model.lanes.values()].flatMap((lane) => (lane.orgId === orgId ? lane.id : []))
  const sometime = (happens: () => void) => void timeline.after(random.int(0, troubleMs), happens)
  const often = (most: number, happens: () => void) => {
    for (let i = random.int(0, most); i > 0; i--) sometime(happens)
  }

  for (let i = random.int(1, 3); i > 0; i--) start()
  for (const org of orgs) {
    for (let i = random.int(1, 15); i > 0; i--) {
      sometime(() => {
        // Now and then a sample for one of them, or with no hint at all.
        const only = random.chance(0.1) ? random.pick(lanesOf(org)) : undefined
        const seqs = Array.from({ length: random.chance(0.2) ? 3 : 1 }, () => model.publish(org, only))
        note(`${org} publishes event ${seqs.join()}`)
        if (random.chance(0.9)) hint(only === undefined ? model.announce(org, seqs) : undefined)
      })
    }
  }
  often(3, () => {
    const [victim] = living()
    if (victim === undefined) return
    victim.kill()
    timeline.after(random.int(0, leaseMs), start)
  })
  often(3, () => {
    const all = living()
    if (all.length > 0) random.pick(all).pause(random.int(1, 3 * leaseMs))
  })
  often(2, () => stopInOrder(random.pick(processes)))
  often(2, () => {
    world.database.isDown = true
    model.crash((commits) => {
      const lost = random.int(0, commits)
      note(`PostgreSQL crashes and loses ${lost} commits`)
      return lost
    }, random.chance(0.5))
    timeline.after(random.int(1, 2 * leaseMs), () => {
      world.database.isDown = false
    })
  })
  often(1, () => {
    const promote = model.standBy()
    timeline.after(random.int(1, 2_000), () => {
      note('the standby takes over, without what came last')
      promote()
      checks.tookOver()
      world.database.isDown = true
      timeline.after(random.int(1, leaseMs), () => {
        world.database.isDown = false
      })
    })
  })
  often(2, () => {
    const laneId = random.pick([...model.lanes.keys()])
    if (model.lanes.size === 1 || random.chance(0.5)) return
    note(`the webhook of lane ${laneId} is deleted`)
    model.end(laneId)
  })
  often(6, () => {
    if (model.attempts.size === 0) return
    const { laneId, eventSeq } = random.pick([...model.attempts.values()])
    if (!model.redeliver(laneId, eventSeq)) return
    note(`event ${eventSeq} is asked for again at lane ${laneId}`)
    hint()
  })
  often(3, () => {
    const laneId = random.pick([...model.lanes.keys()])
    note(`somebody locks lane ${laneId}`)
    model.locked.add(laneId)
    timeline.after(random.int(1, 3 * leaseMs), () => {
      note(`lane ${laneId} is locked no more`)
      model.locked.delete(laneId)
    })
  })
  timeline.after(troubleMs, () => {
    world.database.isDown = false
    model.locked.clear()
    world.database.lossChance = 0
    if (living().length === 0) start()
  })

  const leaving = new Set<Process>()
  function stopInOrder(one: Process): void {
    const { host, dispatcher, kill } = one
    if (!host.alive || leaving.has(one)) return
    leaving.add(one)
    timeline.after(
      0,
      () => {
        note(`${host.name} is told to stop`)
        void dispatcher.stop().then(kill)
      },
      host,
    )
    timeline.after(random.int(0, leaseMs), start)
  }

  timeline.after(troubleMs + 1, () => {
    quiet = true
  })
  /** Until it is so, or a check has failed; in peace this takes a bounded time. */
  async function until(isSo: () => boolean, msMax: number, otherwise: string): Promise<void> {
    const reached = await timeline.run(() => checks.violation !== null || isSo(), msMax)
    if (checks.violation !== null) throw new Error(checks.violation)
    if (!reached) throw new Error(`${otherwise}: ${checks.unfinished()}`)
  }
  const isFinished = () => quiet && checks.isFinished()
  await until(isFinished, troubleMs + peaceMsMax, 'not everything came to an end')
  // And then there is nothing left to do: a lane that would be looked at for ever is a lane in limbo.
  const isAtRest = () => [...model.lanes.values()].every((lane) => lane.owner === null && lane.dueMs === null)
  await until(isAtRest, 10 * leaseMs, 'lanes find no rest')
  // Of statements that were given up the server may still have been at one: a lease that comes after its process has stopped is
  // nobody's, and nothing can be done about it.
  await timeline.run(() => false, lateMsMax)
  // All stop in the middle of work, and hand everything over.
  for (const org of orgs) model.publish(org)
  hint()
  let stopped = false
  timeline.after(random.int(0, 500), async () => {
    const all = living().filter((one) => !leaving.has(one))
    await Promise.all(all.map((one) => one.dispatcher.stop()))
    for (const one of all) one.kill()
    stopped = true
  })
  await until(() => stopped, 60_000, 'stopping takes for ever')
  const owners = new Set(processes.filter((one) => !one.host.alive).map((one) => one.host.name))
  if ([...model.lanes.values()].some((lane) => lane.owner !== null && owners.has(lane.owner))) {
    throw new Error(`lanes were not handed over: ${checks.unfinished()}`)
  }
  start()
  await until(isFinished, peaceMsMax, 'not everything came to an end after the stop')
  checks.atTheEnd()
  if (checks.violation !== null) throw new Error(checks.violation)
  for (const one of living()) one.kill()
  return { requests: checks.requests.length, simulatedMs: timeline.now() - beganMs }
}
