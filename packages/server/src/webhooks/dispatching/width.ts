import type { Exchange } from '../sender/port.ts'

/** How many requests a lane may have in flight, and the best answer time seen lately, which it is judged by. */
export type Width = { now: number; bestUs: number }

/** A new lane starts narrow: nothing is known about its receiver yet. */
export const newWidth = (): Width => ({ now: 2, bestUs: Number.POSITIVE_INFINITY })

/** Answers slower than this narrow a lane whatever its receiver did before. */
const slowUs = 2_000_000
const fastUs = 250_000
/** Within half as much again as the best time, nobody is queueing; beyond that more connections only make a longer queue. */
const slackUs = 1_000
/** Up to here a fast receiver is not asked: a few connections queue nowhere but with us. */
const easyWidth = 4
/** A receiver that has answered so soon takes what comes next on the connection that it has just answered on. */
const quickUs = 50_000
/**
 * What fast receivers need in flight all together, by how long they take: enough for 3,000 answers a second, and never
 * fewer than this. Once the process itself is what is slow, further connections carry nothing and cost a handshake each,
 * which is worth tens of deliveries; and as answers then come late because of us, no lane can tell by its own.
 */
const enoughPerSecond = 3_000
const enoughAtLeast = 256

export const isQuick = ({ bestUs }: Width): boolean => bestUs < quickUs

/** `wanted`: the lane has more to send than it may. One that has not needs no further connection. `inFlight`: of all lanes. */
type Bounds = { widthMax: number; wanted: boolean; inFlight: number }
type Seen = Pick<Exchange, 'status' | 'durationUs' | 'dnsUs' | 'connectUs' | 'tlsUs'>

/**
 * Additive increase, multiplicative decrease, as TCP does it, held back by answer times as TCP Vegas is: a lane widens
 * while its receiver answers about as fast as it ever did. One that is slow, refuses or hangs comes down to a single
 * request, so that what it holds of ours is one connection.
 */
export function nextWidth({ now, bestUs }: Width, seen: Seen, { widthMax, wanted, inFlight }: Bounds): Width {
  const us = (seen.durationUs ?? 0) - (seen.dnsUs ?? 0) - (seen.connectUs ?? 0) - (seen.tlsUs ?? 0)
  if (seen.status === 'interrupted') return { now, bestUs }
  if (seen.status === 'failed' || us > slowUs) return { now: Math.max(1, now / 2), bestUs }
  // The best fades, so that a receiver that has become slower for good is not held to its past; slowly, because it is our
  // own queue that makes answers late when there is much to do, and a handshake for every step up would lengthen it.
  const best = Math.min(us, bestUs * 1.0002)
  const enough = us < fastUs && inFlight >= Math.max(enoughAtLeast, (us * enoughPerSecond) / 1e6)
  const crowded = now >= easyWidth && (enough || us > 1.5 * best + slackUs)
  if (!wanted || crowded) return { now, bestUs: best }
  return { now: Math.min(widthMax, us < fastUs ? now + 1 : now + 1 / now), bestUs: best }
}
