import { recordHeaders } from '../../domain/recorded-headers.ts'
import { type RetrySchedule, retryDelayMs } from '../../domain/retry-schedule.ts'
import type { SettledAttempt } from '../../store/delivery/attempts.ts'
import type { BegunAttempt } from '../../store/delivery/beginnings.ts'
import type { DueDelivery } from '../../store/delivery/due.ts'
import type { Exchange } from '../sender/port.ts'
import type { Clock } from './clock.ts'
import { hasConnection, hasWork, type Lane, type Starting } from './lane.ts'
import { nextWidth } from './width.ts'

/** One attempt, from its place in a lane to what came of it. */
export type Attempted = {
  lane: Lane
  delivery: DueDelivery
  begun: BegunAttempt
  exchange: Exchange
  retryMs: number | null
}

/** Of the time that an attempt took to fail; what failed sooner than a second held nobody up. */
const restShare = 0.1
const restMsMin = 100

/** No file or buffer is free for a connection: others have to end first. */
const exhaustedMs = 1_000

/** No try of the receiver's schedule is spent on what it has no part in. */
const isOurFault = ({ status, error }: Exchange): boolean =>
  status === 'interrupted' || error?.code === 'sender_exhausted'

/** Sends what is on disk, and says what came of it. */
export function createSending(deps: {
  clock: Clock
  random(): number
  schedule: RetrySchedule
  /** A request has come to its end. Says how many the process still has on their way. */
  onEnd(): number
  /** It is too late to send it. */
  interrupt(one: Starting): void
  settle(attempt: SettledAttempt & { lane: Lane }): void
  attempted(one: Attempted): void
  /** Asks the database whether the lane is ours still, and its webhook there. */
  isHeld(lane: Lane): Promise<boolean>
  /** The lane may have something to do. */
  consider(lane: Lane): void
}) {
  const { clock } = deps

  /**
   * A connection that becomes free takes the next at once: no connection waits for the disk, and none is opened that is not
   * needed. But nothing waits for long; and what had to, because this process was paused, does not leave (leaving.ts).
   */
  function sendReady(lane: Lane): void {
    const now = clock.now()
    while (lane.ready.length > 0 && (hasConnection(lane) || lane.ready[0]!.hurryMs <= now)) {
      const one = lane.ready.shift()!
      if (now > one.overMs) deps.interrupt(one)
      else send(one)
    }
    if (lane.ready.length === 0) return
    lane.hurry ??= clock.after(lane.ready[0]!.hurryMs - now, () => {
      lane.hurry = null
      sendReady(lane)
    })
  }

  function send({ lane, delivery, begun, overMs }: Starting): void {
    lane.inFlight += 1
    const headers = lane.sender.headers(delivery, begun.startedAtMs)
    const leave = { overMs, mayGo: () => deps.isHeld(lane) }
    const onEnd = (exchange: Exchange) => {
      lane.inFlight -= 1
      const bounds = { widthMax: lane.widthMax, wanted: hasWork(lane), inFlight: deps.onEnd() }
      lane.sender.width = nextWidth(lane.sender.width, exchange, bounds)
      rest(lane, exchange)
      const tries = begun.tries + (isOurFault(exchange) ? 0 : 1)
      const retryMs = delayAfter(exchange, tries)
      deps.settle({ lane, begun, requestHeaders: recordHeaders(headers), outcome: exchange, tries, retryMs })
      deps.attempted({ lane, delivery, begun, exchange, retryMs })
      sendReady(lane)
      deps.consider(lane)
    }
    lane.sender.send(headers, delivery.body, onEnd, leave)
  }

  /**
   * Requests that left together and hang end together, too. Would the next ones leave at once, hundreds of handshakes fell
   * into the same moment, deadline after deadline; so each lane takes a breath first, no two the same.
   */
  function rest(lane: Lane, { status, durationUs }: Exchange): void {
    const msMax = ((durationUs ?? 0) / 1_000) * restShare
    if (status !== 'failed' || msMax < restMsMin || lane.resting !== null) return
    lane.resting = clock.after(deps.random() * msMax, () => {
      lane.resting = null
      deps.consider(lane)
    })
  }

  function delayAfter(exchange: Exchange, tries: number): number | null {
    if (exchange.status === 'interrupted') return 0
    if (isOurFault(exchange)) return Math.round(exhaustedMs * (1 + deps.random()))
    if (exchange.status === 'succeeded' || exchange.gone) return null
    return retryDelayMs(deps.schedule, tries, { retryAfterMs: exchange.retryAfterMs, random: deps.random() })
  }

  return { sendReady }
}
