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

const burstOf = (rateLimit: number): number => Math.max(1, (rateLimit * burstMs) / 1_000)

function tokensAt({ rateLimit, tokens, filledAtMs }: RateLimited, nowMs: number): number {
  if (rateLimit === null) return Number.POSITIVE_INFINITY
  // A clock that was set back adds nothing.
  return Math.min(burstOf(rateLimit), tokens + (Math.max(0, nowMs - filledAtMs) * rateLimit) / 1_000)
}

/** How long to wait until a delivery may begin; zero: it may now. */
export function limitWaitMs(lane: RateLimited, nowMs: number): number {
  const tokens = tokensAt(lane, nowMs)
  if (lane.rateLimit === null || tokens >= 1) return 0
  return Math.max(waitMsMin, Math.ceil(((1 - tokens) * 1_000) / lane.rateLimit))
}

export function takeToken(lane: RateLimited, nowMs: number): void {
  if (lane.rateLimit === null) return
  lane.tokens = tokensAt(lane, nowMs) - 1
  lane.filledAtMs = nowMs
}

/** The delivery did not begin. */
export function returnToken(lane: RateLimited): void {
  if (lane.rateLimit !== null) lane.tokens += 1
}

/** Nothing of the limit is used up: whoever holds the lane next may start with a full bucket. */
export const isFull = (lane: RateLimited, nowMs: number): boolean =>
  lane.rateLimit === null || tokensAt(lane, nowMs) >= burstOf(lane.rateLimit)

export function setRateLimit(lane: RateLimited, rateLimit: number | null, nowMs: number): void {
  const tokens = tokensAt(lane, nowMs)
  lane.rateLimit = rateLimit
  lane.tokens = rateLimit === null ? 0 : Math.min(tokens, burstOf(rateLimit))
  lane.filledAtMs = nowMs
}
