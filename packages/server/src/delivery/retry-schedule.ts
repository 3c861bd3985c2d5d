import { durationSeconds } from '../lib/units.ts'

/** Delays before each attempt, in milliseconds; the first is the wait before the first attempt. */
export type RetrySchedule = readonly [number, ...number[]]

export const attemptsMax = 100
export const waitDaysMax = 30

/** `0s,5s,5m,30m`: null unless every part is a duration and the first is zero, since a first attempt never waits. */
export function readRetrySchedule(text: string): RetrySchedule | null {
  const delays = text.split(',').map((part) => durationSeconds(part.trim()))
  if (delays[0] !== 0 || delays.length > attemptsMax) return null
  if (delays.some((delay) => delay === null || delay > waitDaysMax * 86_400)) return null
  return delays.map((seconds) => seconds! * 1_000) as [number, ...number[]]
}

const jitter = 0.1

/** The longest wait of any schedule. */
export const retryMsMax = waitDaysMax * 86_400_000 * (1 + jitter)

/**
 * The wait after the `tried`-th try has failed, or null at the end of the schedule. Retry-After lengthens it, up to the longest wait of
 * the schedule: a receiver cannot postpone a delivery for a year.
 */
export function retryDelayMs(
  schedule: RetrySchedule,
  tried: number,
  { retryAfterMs, random }: { retryAfterMs: number | null; random: number },
): number | null {
  const scheduled = schedule[tried]
  if (scheduled === undefined) return null
  const spread = Math.round(scheduled * (1 - jitter + 2 * jitter * random))
  return Math.max(spread, Math.min(retryAfterMs ?? 0, Math.max(...schedule)))
}

/** RFC 9110, 10.2.3: seconds or a date. Anything else is ignored. */
export function readRetryAfter(text: string | undefined, now: number): number | null {
  const value = text?.trim() ?? ''
  if (/^\d+$/.test(value)) return Number(value) * 1_000
  // Date.parse accepts more than HTTP dates, so the format is checked first. The form without a zone is UTC too.
  const at = dates.test(value) ? Date.parse(value) : oldDate.test(value) ? Date.parse(`${value} GMT`) : Number.NaN
  return Number.isNaN(at) ? null : Math.max(0, at - now)
}

const day = '(Mon|Tue|Wed|Thu|Fri|Sat|Sun)'
const time = '\\d\\d:\\d\\d:\\d\\d'

/** RFC 9110, 5.6.7: the current format and two obsolete ones. */
const dates = new RegExp(
  `^(${day}, \\d\\d [A-Z][a-z]{2} \\d{4}|${day}[a-z]{3,6}, \\d\\d-[A-Z][a-z]{2}-\\d\\d) ${time} GMT$`,
)

const oldDate = new RegExp(`^${day} [A-Z][a-z]{2} [ \\d]\\d ${time} \\d{4}$`)

/** Longest time that a lane may be leased without renewal. */
export const leaseMsMax = 600_000
export const pauseMsMax = 30 * 86400000
/** A suspended webhook is tried so often. */
export const probeMs = 3_600_000
/** For so long. Then the schedules of its deliveries go on, so that nothing waits for ever. */
export const suspensionMs = 30 * 86_400_000
