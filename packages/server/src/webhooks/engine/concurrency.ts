import type { Exchange } from '../sender/port.ts'

/**
 * A new lane starts with few requests: nothing is known about its receiver yet. With one, a lane that gets a burst while other
 * receivers hang would use one place of each that becomes free, and wait for a second deadline.
 */
export const firstConcurrency = 2

/** Answers slower than this count like failures. */
const slowUs = 2_000_000
/** Answers faster than this raise the limit by one each, so that it doubles with every round; slower ones by one a round. */
const fastUs = 250_000
/**
 * With so many requests in flight the process is the bottleneck. A further connection then carries nothing and costs a TLS
 * handshake, which is worth tens of deliveries, so lanes stay at a few.
 */
const enoughInFlight = 512
const fewConnections = 4

type Seen = Pick<Exchange, 'status' | 'durationUs' | 'dnsUs' | 'connectUs' | 'tlsUs'>

/**
 * Additive increase, multiplicative decrease, as TCP does it. A receiver that is slow, fails or hangs comes down to a single
 * request. `wanted`: the lane has more to send than it may. `inFlight`: of all lanes.
 */
export function nextConcurrency(
  now: number,
  seen: Seen,
  { max, wanted, inFlight }: { max: number; wanted: boolean; inFlight: number },
): number {
  if (seen.status === 'interrupted') return now
  const us = (seen.durationUs ?? 0) - (seen.dnsUs ?? 0) - (seen.connectUs ?? 0) - (seen.tlsUs ?? 0)
  if (seen.status === 'failed' || us > slowUs) return Math.max(1, now / 2)
  if (!wanted || (now >= fewConnections && inFlight >= enoughInFlight)) return now
  return Math.min(max, us < fastUs ? now + 1 : now + 1 / now)
}
