import type { Exchange } from './exchange.ts'

/** How many requests a lane has in flight at most. A new lane starts narrow: nothing is known about its receiver yet. */
export const firstWidth = 2

/** Answers faster than this let a lane widen quickly; slower than `slowUs` they narrow it. */
const fastUs = 250_000
const slowUs = 2_000_000

/**
 * Additive increase, multiplicative decrease, as TCP does it. A fast receiver doubles its width every round; one that is
 * slow, refuses or hangs comes down to a single request, so that what it holds of ours is one connection.
 */
export function nextWidth(width: number, exchange: Pick<Exchange, 'status' | 'durationUs'>, widthMax: number): number {
  const us = exchange.durationUs ?? 0
  if (exchange.status === 'failed' || us > slowUs) return Math.max(1, width / 2)
  if (exchange.status === 'interrupted') return width
  return Math.min(widthMax, us < fastUs ? width + 1 : width + 1 / width)
}
