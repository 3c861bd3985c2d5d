import type { Beginning, BegunAttempt } from '../../store/delivery/beginnings.ts'
import type { DueDelivery } from '../../store/delivery/due.ts'
import type { LeasedLane } from '../../store/delivery/lanes.ts'
import type { LaneNews } from '../../store/delivery/news.ts'
import type { Exchange } from '../sender/port.ts'
import { isQuick, type Width } from './width.ts'

/** How a lane reaches its receiver. Kept for a while after the lane is given back, so that its connections stay warm. */
export type LaneSender = {
  width: Width
  headers(delivery: Pick<DueDelivery, 'eventId' | 'eventType' | 'body'>, startedAtMs: number): string[]
  send(headers: string[], body: Buffer, done: (exchange: Exchange) => void, leave: Leave): void
  interrupt(): void
}

type Leave = { overMs: number; mayGo(): Promise<boolean> }

/** A delivery that has been taken from its lane to be sent: from `hurryMs` on without waiting, and after `overMs` not any more. */
export type Starting = { lane: Lane; delivery: DueDelivery; begun: BegunAttempt; hurryMs: number; overMs: number }

/** A lane that this process holds the lease of. Everything here is a copy or a count: the truth is in the database. */
export type Lane = {
  readonly leased: LeasedLane
  readonly sender: LaneSender
  readonly widthMax: number
  /** Newest delivery that was read or announced, and newest that is known to exist. */
  readSeq: number
  headSeq: number
  /** Up to here what was read is all that there is. Beyond it stands what was announced, and something may be missing. */
  surelyReadSeq: number
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
  surelyReadSeq: leased.cursorSeq,
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
  if (writtenSeq > lane.headSeq || !canTake(lane, fresh.length)) return
  // A read may have gone beyond the news already: never back, and nothing twice.
  const unread = fresh.filter((one) => one.eventSeq > lane.readSeq)
  if (unread.length === 0) return
  learnSize(lane, unread)
  lane.firsts.push(...unread)
  readUpTo(lane, unread.at(-1)!.eventSeq)
  lane.headSeq = lane.readSeq
}

/**
 * An announcement saves it, too. It may come before another that is about an earlier event, or that other may never come: whether
 * something is missing is seen when it begins.
 */
export function takeAnnounced(lane: Lane, delivery: DueDelivery): void {
  if (delivery.eventSeq <= lane.readSeq || !canTake(lane, 1)) return
  learnSize(lane, [delivery])
  lane.firsts.push(delivery)
  lane.readSeq = delivery.eventSeq
  lane.headSeq = lane.readSeq
}

const canTake = (lane: Lane, count: number): boolean =>
  lane.readSeq >= lane.headSeq &&
  !lane.reading &&
  !lane.gone &&
  lane.leased.webhook !== null &&
  lane.firsts.length + count <= readAhead(lane)

/** What was read follows on what was read before; so it is as sure as that was. */
function readUpTo(lane: Lane, seq: number): void {
  if (lane.surelyReadSeq >= lane.readSeq) lane.surelyReadSeq = seq
  lane.readSeq = seq
}

/** Of what begins now, the first attempts that were announced and not read; null if there are none. */
export function surmisedOf(lane: Lane, fresh: readonly BegunAttempt[]): Beginning['surmised'] {
  const count = fresh.filter((one) => one.attempt === 1 && one.eventSeq > lane.surelyReadSeq).length
  return count === 0 ? null : { afterSeq: lane.surelyReadSeq, count }
}

/** These have begun, so nothing was missing before them. */
export function begunSurely(lane: Lane, { attempt, eventSeq }: BegunAttempt): void {
  if (attempt === 1) lane.surelyReadSeq = Math.max(lane.surelyReadSeq, eventSeq)
}

/** Something is missing before these, so they do not begin, and the lane reads them again with all the others. */
export function readAgain(lane: Lane, { attempt, eventSeq }: BegunAttempt): void {
  if (attempt > 1) lane.retriesDue = true
  else lane.surelyReadSeq = Math.min(lane.surelyReadSeq, eventSeq - 1)
  lane.readSeq = lane.surelyReadSeq
  lane.firsts = []
}

/** Takes in what a read found. A page that was not full says that there is nothing more for now. */
export function takeIn(lane: Lane, request: ReturnType<typeof readRequest>, found: readonly DueDelivery[]): void {
  const firsts = found.filter((one) => one.attempts === 0)
  const retries = found.filter((one) => one.attempts > 0)
  if (found.length > 0) learnSize(lane, found)
  lane.retries.push(...retries)
  // Unless it has to read again what comes before these.
  if (request.firstsMax > 0 && request.afterSeq === lane.readSeq) {
    lane.firsts.push(...firsts)
    readUpTo(lane, firsts.at(-1)?.eventSeq ?? lane.readSeq)
    // A short page holds all that there was: what the lane had been told of beyond that does not exist. A newer head came after it.
    if (firsts.length < request.firstsMax && lane.headSeq === request.headSeq) lane.headSeq = lane.readSeq
  }
  if (request.retriesMax > 0) lane.retriesDue = retries.length === request.retriesMax
}
