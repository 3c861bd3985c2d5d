import type { DispatcherLimits } from '../../src/delivery/dispatcher/ports.ts'
import type { RetrySchedule } from '../../src/delivery/retry-schedule.ts'
import type { SettledAttempt } from '../../src/delivery/statements/settle.ts'
import { type Checks, createChecks } from './checks.ts'
import { createModel, type Model } from './model.ts'
import { type Random, seededRandom } from './random.ts'
import { createTimeline, type Timeline } from './timeline.ts'

/** What a receiver does with one request. */
export type Behaviour = {
  latencyMs: number
  status: 'succeeded' | 'failed'
  retryAfterMs?: number | null
  gone?: boolean
  /** Time until the request leaves. */
  connectMs?: number
}

/** Everything around the dispatchers of one run. */
export type World = {
  timeline: Timeline
  random: Random
  model: Model
  checks: Checks
  limits: DispatcherLimits
  schedule: RetrySchedule
  attemptMsMax: number
  receive(laneId: number): Behaviour
  /** Whether a process can open the secret of a lane's webhook. */
  opens(processName: string, laneId: number): boolean
  /** `latencyMs`: of one direction. `lossChance`: that a statement or its answer is lost. */
  database: { isDown: boolean; latencyMs(): number; lossChance: number; lacksPartition: boolean }
  /** Whether the database rejects the attempt as data that it cannot store. */
  isUnstorable(attempt: SettledAttempt): boolean
  /** Every step, for the replay of a seed. */
  trace(text: string): void
}

/** A small world without faults. A scenario changes what it is about. */
export function createWorld(seed: number, { schedule = [0] as RetrySchedule, laneConcurrencyMax = 8 } = {}): World {
  const random = seededRandom(seed)
  const timeline = createTimeline(1_700_000_000_000)
  const limits = {
    inFlightMax: 10,
    lanesMax: 100,
    laneConcurrencyMax,
    leaseMs: 3_000,
    probeMs: 2_000,
    pollMs: 100,
    drainMsMax: 1_000,
  }
  const model = createModel({
    now: timeline.now,
    leaseMs: () => world.limits.leaseMs,
    probeMs: () => world.limits.probeMs,
    wakesMax: 3,
  })
  const world: World = {
    timeline,
    random,
    model,
    checks: createChecks(model, { laneConcurrencyMax, tries: schedule.length, probeMs: () => world.limits.probeMs }),
    limits,
    schedule,
    attemptMsMax: 1_000,
    receive: () => ({ status: 'succeeded', latencyMs: 1 }),
    opens: () => true,
    database: { isDown: false, latencyMs: () => 1, lossChance: 0, lacksPartition: false },
    isUnstorable: () => false,
    trace() {},
  }
  return world
}
