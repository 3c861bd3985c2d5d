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
  wanted: boolean,
  { max, inFlight }: { max: number; inFlight: number },
): number {
  if (seen.status === 'interrupted') return now
  const us = (seen.durationUs ?? 0) - (seen.dnsUs ?? 0) - (seen.connectUs ?? 0) - (seen.tlsUs ?? 0)
  if (seen.status === 'failed' || us > slowUs) return Math.max(1, now / 2)
  if (!wanted || (now >= fewConnections && inFlight >= enoughInFlight)) return now
  return Math.min(max, us < fastUs ? now + 1 : now + 1 / now)
}

/*
 * The limit of a webhook in deliveries per second: a token bucket for each lane, by the clock of its holder. One process holds a lane
 * at a time, so one bucket is enough for all. A new holder starts with a full one: it may send one burst more.
 */

export type RateLimited = {
  /** Deliveries per second; null: no limit. */
  rateLimit: number | null
  /** Deliveries that could begin at `filledAtMs`. */
  tokens: number
  filledAtMs: number
}

/** What may begin at once after a wait. A second has so much more than its limit at most. */
const burstMs = 100
/** Shorter waits would begin few deliveries with each statement. */
const waitMsMin = 25

export const burstOf = (rateLimit: number): number => Math.max(1, (rateLimit * burstMs) / 1_000)

export function tokensAt({ rateLimit, tokens, filledAtMs }: Readonly<RateLimited>, nowMs: number): number {
  if (rateLimit === null) return Number.POSITIVE_INFINITY
  // A clock that was set back adds nothing.
  return Math.min(burstOf(rateLimit), tokens + (Math.max(0, nowMs - filledAtMs) * rateLimit) / 1_000)
}

/** How long to wait until a delivery may begin; zero: it may now. */
export function limitWaitMs(lane: Readonly<RateLimited>, nowMs: number): number {
  const tokens = tokensAt(lane, nowMs)
  if (lane.rateLimit === null || tokens >= 1) return 0
  return Math.max(waitMsMin, Math.ceil(((1 - tokens) * 1_000) / lane.rateLimit))
}

/** Nothing of the limit is used up: whoever holds the lane next may start with a full bucket. */
export const isFull = (lane: Readonly<RateLimited>, nowMs: number): boolean =>
  lane.rateLimit === null || tokensAt(lane, nowMs) >= burstOf(lane.rateLimit)
