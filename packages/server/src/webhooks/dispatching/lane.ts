import type { BegunAttempt } from '../../store/delivery/beginnings.ts'
import type { DueDelivery } from '../../store/delivery/due.ts'
import type { LeasedLane } from '../../store/delivery/lanes.ts'
import type { LaneNews } from '../../store/delivery/news.ts'
import type { Exchange } from '../sending/exchange.ts'
import type { FlatHeaders, Leave } from '../sending/receiver-connections.ts'
import { isQuick, type Width } from './width.ts'

/** How a lane reaches its receiver. Kept for a while after the lane is given back, so that its connections stay warm. */
export type LaneSender = {
  width: Width
  headers(delivery: Pick<DueDelivery, 'eventId' | 'eventType' | 'body'>, startedAtMs: number): FlatHeaders
  send(headers: FlatHeaders, body: Buffer, done: (exchange: Exchange) => void, leave: Leave): void
  interrupt(): void
}

/** A delivery that has been taken from its lane to be sent: from `hurryMs` on without waiting, and after `overMs` not any more. */
export type Starting = { lane: Lane; delivery: DueDelivery; begun: BegunAttempt; hurryMs: number; overMs: number }

/** A lane that this process holds the lease of. Everything here is a copy or a count: the truth is in the database. */
export type Lane = {
  readonly leased: LeasedLane
  readonly sender: LaneSender
  readonly widthMax: number
  /** Newest delivery that was read, and newest that is known to exist. */
  readSeq: number
  headSeq: number
  asked: number
  /** Retries may be due. */
  retriesDue: boolean
  firsts: DueDelivery[]
  retries: DueDelivery[]
  /** How large bodies are, by the largest that was read lately. */
  bodyBytes: number
  reading: boolean
  /** Retries that are being begun: until that is on disk, another read would find them again. */
  retriesStarting: number
  starting: number
  /** The group in which they are being begun, and how many groups there were. */
  group: unknown
  begunNo: number
  /** On disk, and waiting for a connection to become free; and the timer that ends the wait. */
  ready: Starting[]
  hurry: (() => void) | null
  /** The timer that ends its rest: while it has one, nothing is started. */
  resting: (() => void) | null
  inFlight: number
  /** All that is begun or about to be, and whose outcome is not on disk yet. */
  unsettled: BegunAttempt[]
  /** It stands in line for its turn to begin something. */
  isWaiting: boolean
  /** Since when it has had nothing to do; kept for a moment, because what comes next often comes soon. */
  idleSince: number | null
  releasing: boolean
  /** No longer ours, or ended: nothing more is started. */
  gone: boolean
}

export const openLane = (leased: LeasedLane, sender: LaneSender, widthMax: number): Lane => ({
  leased,
  sender,
  widthMax,
  readSeq: leased.cursorSeq,
  headSeq: leased.headSeq,
  asked: leased.asked,
  retriesDue: true,
  firsts: [],
  retries: [],
  bodyBytes: 0,
  reading: false,
  retriesStarting: 0,
  starting: 0,
  group: null,
  begunNo: 0,
  ready: [],
  hurry: null,
  resting: null,
  inFlight: 0,
  unsettled: [],
  isWaiting: false,
  idleSince: null,
  releasing: false,
  gone: false,
})

const busy = (lane: Lane): number => lane.starting + lane.ready.length + lane.inFlight

/** What is begun ahead of a quick receiver, for each of its connections: they never wait for the disk. */
const aheadPerConnection = 2

/** Each beginning writes down all that the lane has not settled. Where settling is slow, nothing more begins. */
const unsettledPerPlace = 8

/**
 * As many may be on their way to the disk as to the receiver, and more where it is quick: on a slow disk, beginning takes as
 * long as sending, and a lane that did one after the other would be half as fast. One that is down to a single request has a
 * single one in either.
 */
export const hasRoom = (lane: Lane): boolean => {
  const width = Math.floor(lane.sender.width.now)
  if (busy(lane) >= (width > 1 ? lane.widthMax : 1) || lane.unsettled.length >= unsettledPerPlace * lane.widthMax)
    return false
  if (isQuick(lane.sender.width)) return lane.starting + lane.ready.length < aheadPerConnection * width
  return lane.inFlight < width && lane.starting < width
}

/** What is on disk may leave. A quick receiver gets it on the connections that it has; no other is worth waiting for. */
export const hasConnection = (lane: Lane): boolean =>
  lane.inFlight < Math.floor(lane.sender.width.now) || !isQuick(lane.sender.width)

export const isBusy = (lane: Lane): boolean => busy(lane) > 0

export const hasWork = (lane: Lane): boolean => lane.firsts.length > 0 || lane.retries.length > 0

export const canStart = (lane: Lane): boolean =>
  !lane.gone && !lane.releasing && lane.resting === null && hasWork(lane) && hasRoom(lane)

/**
 * Rounds ahead of what is in flight: many for a receiver that has shown itself fast, so that a read is worth its statement;
 * next to none for the others, of which there may be thousands. And few of what is large: it is all in memory.
 */
const readAhead = (lane: Lane): number => {
  const width = Math.floor(lane.sender.width.now)
  const rounds = isQuick(lane.sender.width) || width >= 4 ? Math.min(readAheadMax, Math.max(40, 10 * width)) : 4
  return Math.max(1, Math.min(rounds, Math.floor(aheadBytesMax / lane.bodyBytes)))
}
const readAheadMax = 200
const aheadBytesMax = 512 * 1_024

/** The largest of before counts for half: bodies may have become small again. */
function learnSize(lane: Lane, read: readonly DueDelivery[]): void {
  lane.bodyBytes = read.reduce((most, { body }) => Math.max(most, body.length), Math.floor(lane.bodyBytes / 2))
}

const wantsFirsts = (lane: Lane): boolean => lane.readSeq < lane.headSeq && lane.firsts.length <= readAhead(lane) / 2
const wantsRetries = (lane: Lane): boolean =>
  lane.retriesDue && lane.retries.length === 0 && lane.retriesStarting === 0 && hasRoom(lane)

export const wantsRead = (lane: Lane): boolean =>
  !lane.gone &&
  !lane.releasing &&
  !lane.reading &&
  // Of a deleted webhook nothing is sent, so what was read would never leave, and the lane never be given back.
  lane.leased.webhook !== null &&
  (wantsFirsts(lane) || wantsRetries(lane))

/** Nothing to do, as far as is known. */
export const isIdle = (lane: Lane): boolean =>
  !lane.gone && !lane.releasing && !lane.reading && !hasWork(lane) && lane.unsettled.length === 0 && !wantsRead(lane)

/** Retries first: they have waited longest. */
export function takeNext(lane: Lane): DueDelivery {
  return (lane.retries.shift() ?? lane.firsts.shift())!
}

export const readRequest = (lane: Lane) => ({
  laneId: lane.leased.laneId,
  orgId: lane.leased.orgId,
  afterSeq: lane.readSeq,
  headSeq: lane.headSeq,
  firstsMax: wantsFirsts(lane) ? readAhead(lane) : 0,
  retriesMax: wantsRetries(lane) ? readAhead(lane) : 0,
})

/**
 * News that was read in full saves the lane a read: if it has read everything that it knows of, and was told of nothing in
 * writing that it does not know, for that would be missing here. A lane of a deleted webhook sends nothing.
 */
export function takeFresh(lane: Lane, { writtenSeq, fresh }: LaneNews): void {
  const isCaughtUp = lane.readSeq >= lane.headSeq && writtenSeq <= lane.headSeq && !lane.reading
  if (!isCaughtUp || lane.gone || lane.leased.webhook === null) return
  if (lane.firsts.length + fresh.length > readAhead(lane)) return
  // A read may have gone beyond the news already: never back, and nothing twice.
  const unread = fresh.filter((one) => one.eventSeq > lane.readSeq)
  if (unread.length === 0) return
  learnSize(lane, unread)
  lane.firsts.push(...unread)
  lane.readSeq = unread.at(-1)!.eventSeq
  lane.headSeq = lane.readSeq
}

/** Takes in what a read found. A page that was not full says that there is nothing more for now. */
export function takeIn(lane: Lane, request: ReturnType<typeof readRequest>, found: readonly DueDelivery[]): void {
  const firsts = found.filter((one) => one.attempts === 0)
  const retries = found.filter((one) => one.attempts > 0)
  if (found.length > 0) learnSize(lane, found)
  lane.firsts.push(...firsts)
  lane.retries.push(...retries)
  if (request.firstsMax > 0) {
    // A short page holds everything up to the head that was known when it was asked for; a newer head came after it.
    const upTo = firsts.length < request.firstsMax ? request.headSeq : 0
    lane.readSeq = Math.max(lane.readSeq, upTo, firsts.at(-1)?.eventSeq ?? 0)
  }
  if (request.retriesMax > 0) lane.retriesDue = retries.length === request.retriesMax
}
