import type { Database } from '../../db/database.ts'
import { type Clock, pause, retryUntilAccepted } from '../../lib/clock.ts'
import type { OrgId } from '../../lib/ids.ts'
import type { Exchange } from '../sender/port.ts'
import { type Begun, beginAttempts, type NewAttempt } from '../statements/begin.ts'
import { type DueDelivery, type FetchRequest, fetchDue } from '../statements/fetch.ts'
import { isLaneHeld } from '../statements/is-held.ts'
import { type HeldLane, type LeasedLane, type LeaseRequest, leaseLanes, type UsedLane } from '../statements/lease.ts'
import { type ReleasedLane, releaseLanes } from '../statements/release.ts'
import { type RenewedLane, renewLanes } from '../statements/renew.ts'
import { interruptAttempts, type SettledAttempt, settleAttempts } from '../statements/settle.ts'
import { type WakeCursor, type Woken, wakeLanes } from '../statements/wake.ts'
import type { Lane } from './lane.ts'

export type Dispatcher = {
  start(): void
  /** These organizations may have something to deliver; null: any may. Polling finds everything in any case. */
  hint(orgIds: readonly OrgId[] | null): void
  /** Begins nothing more, waits for what is in flight up to the limit, then interrupts it and gives every lane back. */
  stop(): Promise<void>
  readonly lanes: number
  readonly inFlight: number
}

/** One attempt and what came of it. */
export type Attempted = {
  lane: Lane
  delivery: DueDelivery
  attempt: NewAttempt
  exchange: Exchange
  retryMs: number | null
}

export type DispatchObserver = {
  attempted(one: Attempted): void
  /** Sizes of the batches; `ours` counts the attempts that the lease still covered. */
  batch(kind: 'begin' | 'settle', size: number, ours: number): void
}

export type DispatcherLimits = {
  inFlightMax: number
  lanesMax: number
  laneConcurrencyMax: number
  leaseMs: number
  pollMs: number
  drainMsMax: number
}

/** Everything a dispatcher asks of the database: one function per statement. A port, so that the dispatcher runs in a simulation. */
export type DispatchStore = {
  wake(after: WakeCursor): Promise<Woken>
  lease(request: LeaseRequest): Promise<LeasedLane[]>
  interrupt(held: readonly HeldLane[]): Promise<number[]>
  renew(held: readonly UsedLane[]): Promise<RenewedLane[]>
  release(held: readonly ReleasedLane[]): Promise<number[]>
  isHeld(held: UsedLane): Promise<boolean>
  fetch(requests: readonly FetchRequest[]): Promise<DueDelivery[]>
  begin(attempts: readonly NewAttempt[]): Promise<Begun>
  settle(attempts: readonly SettledAttempt[]): Promise<number>
}

const wakesPerCall = 1_000

export const createDispatchStore = (db: Database, leaseMs: number): DispatchStore => ({
  wake: (after) => wakeLanes(db, after, wakesPerCall),
  lease: (request) => leaseLanes(db, request),
  interrupt: (held) => interruptAttempts(db, held),
  renew: (held) => renewLanes(db, held, leaseMs),
  release: (held) => releaseLanes(db, held),
  isHeld: (held) => isLaneHeld(db, held),
  fetch: (requests) => fetchDue(db, requests),
  begin: (attempts) => beginAttempts(db, attempts, leaseMs),
  settle: (attempts) => settleAttempts(db, attempts),
})

/** Sends a statement until PostgreSQL accepts it. `onError` may repair the cause, or throw to give up. */
export type Retry = <T>(step: string, work: () => Promise<T>, onError?: (error: unknown) => Promise<void>) => Promise<T>

/** Every statement of the engine may be sent twice. Once the dispatcher is over, errors are thrown instead. */
export const createRetry = (deps: {
  clock: Clock
  isOver(): boolean
  onError(error: unknown, step: string): void
}): Retry => {
  return (step, work, onError) =>
    retryUntilAccepted(
      {
        pause: (ms) => pause(deps.clock, ms),
        isTransient: () => !deps.isOver(),
        async onRetry(error) {
          deps.onError(error, step)
          await onError?.(error)
        },
        pauseMsMin: 50,
        pauseMsMax: 1_000,
      },
      work,
    )
}
