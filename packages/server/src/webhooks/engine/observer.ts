import type { Exchange } from '../sender/port.ts'
import type { NewAttempt } from '../sql/begin.ts'
import type { DueDelivery } from '../sql/fetch.ts'
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
