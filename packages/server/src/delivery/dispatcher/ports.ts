import type { Begun, NewAttempt } from '../statements/begin.ts'
import type { DueDelivery, FetchRequest } from '../statements/fetch.ts'
import type { ReleasedLane, RenewedLane } from '../statements/held-lanes.ts'
import type { HeldLane, LeasedLane, LeaseRequest, UsedLane } from '../statements/lease.ts'
import type { Settled, SettledAttempt } from '../statements/settle.ts'
import type { WakeCursor, Woken } from '../statements/wake.ts'

export type DispatcherLimits = {
  inFlightMax: number
  lanesMax: number
  laneConcurrencyMax: number
  leaseMs: number
  /** How often a suspended webhook is tried. */
  probeMs: number
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
  settle(attempts: readonly SettledAttempt[]): Promise<Settled>
}

/** Sends a statement until PostgreSQL accepts it. `onError` may repair the cause, or throw to give up. */
export type Retry = <T>(step: string, work: () => Promise<T>, onError?: (error: unknown) => Promise<void>) => Promise<T>
