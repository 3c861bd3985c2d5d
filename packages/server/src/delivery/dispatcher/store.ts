import type { Database } from '../../db/database.ts'
import { type Begun, beginAttempts, type NewAttempt } from '../statements/begin.ts'
import { type DueDelivery, type FetchRequest, fetchDue } from '../statements/fetch.ts'
import {
  type HeldLane,
  isLaneHeld,
  type LeasedLane,
  type LeaseRequest,
  leaseLanes,
  type ReleasedLane,
  type RenewedLane,
  releaseLanes,
  renewLanes,
  type UsedLane,
} from '../statements/lease.ts'
import { interruptAttempts, type SettledAttempt, settleAttempts } from '../statements/settle.ts'
import { type WakeCursor, type Woken, wakeLanes } from '../statements/wake.ts'

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
