import type { OrgId } from '../../lib/ids.ts'
import type { Exchange } from '../sender/port.ts'
import type { NewAttempt } from '../statements/begin.ts'
import type { DueDelivery } from '../statements/fetch.ts'
import type { Lane } from './lane.ts'

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

export type Dispatcher = {
  start(): void
  /** These organizations may have something to deliver; null: any may. Polling finds everything in any case. */
  hint(orgIds: readonly OrgId[] | null): void
  /** Begins nothing more, waits for what is in flight up to the limit, then interrupts it and gives every lane back. */
  stop(): Promise<void>
  readonly lanes: number
  readonly inFlight: number
}
