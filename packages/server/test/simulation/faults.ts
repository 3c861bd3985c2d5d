import type { OrgId } from '../../src/lib/ids.ts'
import type { Process } from './process.ts'
import type { World } from './world.ts'

/** Publishing and faults happen within this time. */
export const troubleMs = 15_000

/** Plans what the seed draws: events, and everything that goes wrong. */
export function addFaults(deps: {
  world: World
  orgs: readonly OrgId[]
  processes: readonly Process[]
  start(): void
  living(): Process[]
  hint(orgId: OrgId): void
}) {
  const { world, orgs, processes, start, living, hint } = deps
  const { timeline, random, model, checks, database, limits, trace } = world
  const { leaseMs } = limits
  const stopping = new Set<Process>()

  const sometime = (happens: () => void) => void timeline.after(random.int(0, troubleMs), happens)
  const upTo = (most: number, happens: () => void) => {
    for (let i = random.int(0, most); i > 0; i--) sometime(happens)
  }
  const someLane = () => random.pick([...model.lanes.keys()])
  const lanesOf = (orgId: OrgId) => [...model.lanes.values()].flatMap((lane) => (lane.orgId === orgId ? lane.id : []))

  for (const org of orgs) {
    for (let i = random.int(1, 15); i > 0; i--) {
      sometime(() => {
        const only = random.chance(0.1) ? random.pick(lanesOf(org)) : undefined
        const seqs = model.publish(org, { count: random.chance(0.2) ? 3 : 1, only })
        trace(`${org} publishes ${seqs.join()}`)
        if (random.chance(0.9)) hint(org)
      })
    }
  }
  // A process dies.
  upTo(3, () => {
    const [victim] = living()
    if (victim === undefined) return
    victim.kill()
    timeline.after(random.int(0, leaseMs), start)
  })
  // A process is paused, up to three leases long.
  upTo(3, () => {
    const all = living()
    if (all.length > 0) random.pick(all).pause(random.int(1, 3 * leaseMs))
  })
  // A process stops in order.
  upTo(2, () => {
    const one = random.pick(processes)
    const { host } = one
    if (!host.alive || stopping.has(one)) return
    stopping.add(one)
    const stop = () => {
      trace(`${host.name} stops`)
      void one.stop()
    }
    timeline.after(0, stop, host)
    timeline.after(random.int(0, leaseMs), start)
  })
  const outage = (ms: number) => {
    database.isDown = true
    timeline.after(ms, () => {
      database.isDown = false
    })
  }
  // PostgreSQL crashes and loses its last asynchronous commits.
  upTo(2, () => {
    model.crash((commits) => {
      const lost = random.int(0, commits)
      trace(`PostgreSQL crashes and loses ${lost} commits`)
      return lost
    }, random.chance(0.5))
    outage(random.int(1, 2 * leaseMs))
  })
  // A standby takes over that had not received the last commits.
  upTo(1, () => {
    const promote = model.standby()
    timeline.after(random.int(1, 2_000), () => {
      trace('a standby takes over')
      promote()
      checks.promoted()
      outage(random.int(1, leaseMs))
    })
  })
  // A webhook is deleted.
  upTo(2, () => {
    const laneId = someLane()
    if (model.lanes.size === 1 || random.chance(0.5)) return
    trace(`the webhook of lane ${laneId} is deleted`)
    model.end(laneId)
  })
  // A webhook is paused, and most times resumed before the end.
  upTo(3, () => {
    const laneId = someLane()
    const ms = random.int(1, 8_000)
    trace(`the webhook of lane ${laneId} is paused for ${ms} ms`)
    model.pause(laneId, timeline.now() + ms)
    if (random.chance(0.6))
      timeline.after(random.int(1, ms), () => {
        trace(`the webhook of lane ${laneId} is resumed`)
        model.resume(laneId)
        if (random.chance(0.7)) hint(model.lanes.get(laneId)!.orgId)
      })
  })
  // Webhooks that have failed for long are suspended.
  upTo(4, () => {
    const times = { probeMs: limits.probeMs, suspensionMs: random.int(1, 20_000) }
    trace(`${model.suspendFailing(times)} webhooks are suspended for ${times.suspensionMs} ms`)
  })
  // Suspensions end some time after a success; those that remain end by themselves.
  upTo(4, () => trace(`${model.endSuspensions()} suspensions end`))
  // The settings of a webhook change.
  upTo(3, () => {
    const laneId = someLane()
    const rateLimit = random.pick([null, 1, 5, 100])
    const moves = random.chance(0.5)
    trace(`the webhook of lane ${laneId} may have ${rateLimit ?? 'any number of'} deliveries per second`)
    model.change(laneId, rateLimit, moves)
    if (!moves) return
    trace(`the webhook of lane ${laneId} has a new URL`)
    checks.moved(laneId)
  })
  // A redelivery is requested.
  upTo(6, () => {
    if (model.attempts.size === 0) return
    const { laneId, eventSeq } = random.pick([...model.attempts.values()])
    if (!model.redeliver(laneId, eventSeq)) return
    trace(`redelivery of event ${eventSeq} to lane ${laneId} is requested`)
    if (random.chance(0.7)) hint(model.lanes.get(laneId)!.orgId)
  })
  // A transaction locks a lane.
  upTo(3, () => {
    const laneId = someLane()
    trace(`lane ${laneId} is locked`)
    model.locked.add(laneId)
    timeline.after(random.int(1, 3 * leaseMs), () => {
      trace(`lane ${laneId} is unlocked`)
      model.locked.delete(laneId)
    })
  })
  timeline.after(troubleMs, () => {
    database.isDown = false
    database.lossChance = 0
    model.locked.clear()
    if (living().length === 0) start()
  })
  return { stopping }
}
