import { type RetrySchedule, retryDelayMs } from '../retry-schedule.ts'
import type { Exchange } from '../sender/port.ts'

/** No file descriptor or buffer was free for a connection: others have to end first. */
const exhaustedMs = 1_000

/** A failure that took at least a second delays its lane by up to a tenth of that time. */
const delayShare = 0.1
const delayMsMin = 100

/** The receiver had no part in it, so no try of its schedule is spent. */
const isOurFault = ({ status, error }: Exchange): boolean =>
  status === 'interrupted' || error?.code === 'sender_exhausted'

/** How many tries of the schedule are spent, and when the next one is due; null when the delivery is finished. */
export function afterAttempt(
  exchange: Exchange,
  triesBefore: number,
  { schedule, random }: { schedule: RetrySchedule; random: number },
): { tries: number; retryMs: number | null } {
  const tries = triesBefore + (isOurFault(exchange) ? 0 : 1)
  if (exchange.status === 'interrupted') return { tries, retryMs: 0 }
  if (isOurFault(exchange)) return { tries, retryMs: Math.round(exhaustedMs * (1 + random)) }
  if (exchange.status === 'succeeded' || exchange.gone) return { tries, retryMs: null }
  return { tries, retryMs: retryDelayMs(schedule, tries, { retryAfterMs: exchange.retryAfterMs, random }) }
}

/**
 * Requests that hang together end together. If their successors left at once, hundreds of TLS handshakes would happen at one time,
 * deadline after deadline: with 500 hanging receivers the p99 of all others rose to 0.2 to 0.7 s.
 */
export function delayAfter({ status, durationUs }: Exchange, random: number): number {
  const msMax = ((durationUs ?? 0) / 1_000) * delayShare
  return status === 'failed' && msMax >= delayMsMin ? random * msMax : 0
}

export const interrupted: Exchange = {
  status: 'interrupted',
  requestHeaders: null,
  durationUs: null,
  firstByteUs: null,
  address: null,
  dnsUs: null,
  connectUs: null,
  tlsUs: null,
  response: null,
  error: { code: 'interrupted', detail: 'The dispatcher stopped before the outcome was known.' },
  gone: false,
  retryAfterMs: null,
}
