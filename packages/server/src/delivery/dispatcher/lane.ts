import type { Exchange, Sender } from '../sender/port.ts'
import type { DueDelivery, FetchRequest } from '../statements/fetch.ts'
import type { RenewedLane } from '../statements/held-lanes.ts'
import type { LeasedLane } from '../statements/lease.ts'
import { firstConcurrency, nextConcurrency } from './outcome.ts'

/*
 * A lane that this process holds the lease of. Everything here is a copy or a count: the truth is in the database. Only functions in
 * this file write to it, and they do no I/O.
 */

/**
 * `ready`: attempts may begin. `beginning`: a begin statement is under way; one at a time, because the cursor would skip a delivery
 * whose begin was lost while a later one was written. `releasing`: it is being given back. `lost`: the lease or the webhook is gone;
 * nothing begins, and the lane is given back once what was in flight is recorded.
 */
type LaneState = 'ready' | 'beginning' | 'releasing' | 'lost'
type LaneEvent = 'begin' | 'begun' | 'release' | 'keep' | 'lose'

const transitions: Record<LaneState, Record<LaneEvent, LaneState>> = {
  ready: { begin: 'beginning', begun: 'ready', release: 'releasing', keep: 'ready', lose: 'lost' },
  beginning: { begin: 'beginning', begun: 'ready', release: 'beginning', keep: 'beginning', lose: 'lost' },
  releasing: { begin: 'releasing', begun: 'releasing', release: 'releasing', keep: 'ready', lose: 'lost' },
  lost: { begin: 'lost', begun: 'lost', release: 'lost', keep: 'lost', lose: 'lost' },
}

/**
 * What the lane knows of its queue. `caught_up`: everything was read. `behind`: there may be more. `fetching`: it is being read.
 * `fetching_behind`: more may have come since the read started.
 */
type Reading = 'caught_up' | 'behind' | 'fetching' | 'fetching_behind'
type ReadingEvent = 'hint' | 'fetch' | 'fetched_all' | 'fetched_page'

const readings: Record<Reading, Record<ReadingEvent, Reading>> = {
  caught_up: { hint: 'behind', fetch: 'fetching', fetched_all: 'caught_up', fetched_page: 'behind' },
  behind: { hint: 'behind', fetch: 'fetching', fetched_all: 'behind', fetched_page: 'behind' },
  fetching: { hint: 'fetching_behind', fetch: 'fetching', fetched_all: 'caught_up', fetched_page: 'behind' },
  fetching_behind: { hint: 'fetching_behind', fetch: 'fetching', fetched_all: 'behind', fetched_page: 'behind' },
}

/** A delivery that was read. `attemptId`: a begin of it was sent before and found the lane locked. */
export type ReadDelivery = DueDelivery & { attemptId?: string }

type LaneRecord = ReturnType<typeof openLane>
export type Lane = Readonly<LaneRecord>

export function openLane(
  lease: LeasedLane,
  sender: Sender | null,
  { nowMs, concurrencyMax }: { nowMs: number; concurrencyMax: number },
) {
  const lane = {
    lease,
    /** Null once the webhook is deleted: the lane is leased only to record what was left in flight. */
    sender,
    /** Of the settings that the sender was made from. Beginning compares it, and renewing brings newer ones. */
    version: lease.version,
    /** The webhook is paused: nothing begins, and the lane is given back once what was in flight is recorded. */
    isPaused: lease.paused,
    /** The webhook is suspended: only what was requested begins, and now and then a probe. */
    isSuspended: lease.suspended,
    /** A suspension has ended. First attempts begin when no older delivery waits for a retry, and nothing overtakes. */
    isResuming: lease.resumes,
    /** What was read is not what may begin now: the lane is given back, and read from its start by the next holder. */
    isOutdated: false,
    /** Deliveries per second, and how many could begin at `filledAtMs`; null: no limit. */
    rateLimit: null as number | null,
    tokens: 0,
    filledAtMs: nowMs,
    state: 'ready' as LaneState,
    reading: 'behind' as Reading,
    /** Deliveries that were read and not begun: retries, then first attempts in order. */
    retries: [] as ReadDelivery[],
    firsts: [] as ReadDelivery[],
    /** Newest delivery that was read. */
    readSeq: lease.cursorSeq,
    redeliveryRequests: lease.redeliveryRequests,
    /** How many attempts may be in flight, and how many are, counting those that are being begun. */
    concurrency: Math.min(firstConcurrency, concurrencyMax),
    inFlight: 0,
    /** Attempts whose outcome is not on disk yet. */
    unsettled: 0,
    /** Size of the largest body that was read lately: few large ones are kept in memory. */
    bodyBytes: 0,
    /** Nothing begins before then. */
    delayedUntilMs: 0,
    idleSinceMs: null as number | null,
    extendedAtMs: nowMs,
    /** It waits for its turn. */
    isQueued: false,
  }
  setRateLimit(lane, lease.webhook?.rateLimit ?? null, nowMs)
  return lane
}

export function change(lane: LaneRecord, event: LaneEvent): void {
  lane.state = transitions[lane.state][event]
}

/** Nothing of it begins any more. */
export function drop(lane: LaneRecord): void {
  change(lane, 'lose')
  lane.retries = []
  lane.firsts = []
}

export function changeReading(lane: LaneRecord, event: ReadingEvent): void {
  lane.reading = readings[lane.reading][event]
}

export function setQueued(lane: LaneRecord, isQueued: boolean): void {
  lane.isQueued = isQueued
}

/** Beginning an attempt and renewing extend the lease. */
export function extend(lane: LaneRecord, nowMs: number): void {
  lane.extendedAtMs = nowMs
}

/** What renewing the lease has found. `sender`: of the settings, if they have changed. */
export function learn(
  lane: LaneRecord,
  sender: Sender | null,
  { redeliveryRequests, paused, suspended, changed }: RenewedLane,
  nowMs: number,
): void {
  extend(lane, nowMs)
  lane.isPaused = paused
  if (suspended && !lane.isSuspended) lane.isOutdated = true
  // Nothing was read but what could begin, so that reading goes on from there.
  if (!suspended && lane.isSuspended) {
    lane.isResuming = true
    changeReading(lane, 'hint')
  }
  lane.isSuspended = suspended
  if (changed !== null) {
    lane.sender = sender
    lane.version = changed.version
    // A delay may be one of the old limit.
    if (changed.rateLimit !== lane.rateLimit) lane.delayedUntilMs = 0
    setRateLimit(lane, changed.rateLimit, nowMs)
  }
  if (redeliveryRequests === lane.redeliveryRequests) return
  lane.redeliveryRequests = redeliveryRequests
  changeReading(lane, 'hint')
}

function setRateLimit(lane: LaneRecord, rateLimit: number | null, nowMs: number): void {
  if (rateLimit === lane.rateLimit) return
  const tokens = tokensAt(lane, nowMs)
  lane.rateLimit = rateLimit
  lane.tokens = rateLimit === null ? 0 : Math.min(tokens, burstOf(rateLimit))
  lane.filledAtMs = nowMs
}

/** False when it is delayed for longer already. */
export function delayUntil(lane: LaneRecord, untilMs: number): boolean {
  if (untilMs <= lane.delayedUntilMs) return false
  lane.delayedUntilMs = untilMs
  return true
}

/** The timer was set for `untilMs`. By the clock, which counts whole milliseconds, it may be early. */
export function endDelay(lane: LaneRecord, untilMs: number): void {
  if (lane.delayedUntilMs === untilMs) lane.delayedUntilMs = 0
}

/** Settling lags behind where PostgreSQL is slow; then nothing more begins. */
const unsettledPerRequest = 8

export const hasWork = (lane: Lane): boolean => lane.retries.length + lane.firsts.length > 0

const hasRoom = (lane: Lane): boolean =>
  lane.inFlight < Math.floor(lane.concurrency) && lane.unsettled < unsettledPerRequest * Math.max(8, lane.concurrency)

/** Nothing begins, and the lane is given back once what was in flight is recorded. */
export const isClosed = (lane: Lane): boolean => lane.isPaused || lane.isOutdated

/** But for the limit of its webhook, something could begin. */
export const wantsToken = (lane: Lane, nowMs: number): boolean =>
  lane.state === 'ready' && !isClosed(lane) && lane.delayedUntilMs <= nowMs && hasWork(lane) && hasRoom(lane)

export const canBegin = (lane: Lane, nowMs: number): boolean =>
  wantsToken(lane, nowMs) && limitWaitMs(lane, nowMs) === 0

/** Many for a receiver that takes many, so that a read is worth its statement; few for the others, of which there are thousands. */
const readAhead = (lane: Lane): number => {
  const wanted = lane.concurrency >= 4 ? Math.min(200, Math.max(40, 10 * Math.floor(lane.concurrency))) : 4
  return Math.max(1, Math.min(wanted, Math.floor((512 * 1_024) / Math.max(1, lane.bodyBytes))))
}

export const wantsFetch = (lane: Lane): boolean =>
  (lane.state === 'ready' || lane.state === 'beginning') &&
  lane.reading === 'behind' &&
  lane.sender !== null &&
  !isClosed(lane) &&
  lane.retries.length + lane.firsts.length <= readAhead(lane) / 2

/** A lane that waits for its receiver learns of nothing new by polling; when its attempts end it reads again. */
export const isWorthPolling = (lane: Lane): boolean => !hasWork(lane) && hasRoom(lane)

/** Nothing is waiting or in flight, as far as was read. */
const hasNothing = (lane: Lane): boolean => !hasWork(lane) && lane.unsettled === 0

export function noteIdle(lane: LaneRecord, nowMs: number): void {
  lane.idleSinceMs = hasNothing(lane) ? (lane.idleSinceMs ?? nowMs) : null
}

/** An idle lane is kept for that long: with one second, webhooks with an event a second were leased for each (p99 beside hanging ones 37 ms, now 24). */
const lingerMs = 3_000

/**
 * It is about to be given back. A poll must not read it again: that would put it off, for ever where a read takes long. A lane that
 * has used up its limit is kept until it has not: with the lane, the count of it would go.
 */
export const hasLingered = (lane: Lane, nowMs: number): boolean =>
  lane.idleSinceMs !== null && (lane.sender === null || (lane.idleSinceMs <= nowMs - lingerMs && isFull(lane, nowMs)))

export function canRelease(lane: Lane, nowMs: number): boolean {
  if (lane.state !== 'ready') return false
  if (isClosed(lane)) return lane.unsettled === 0
  return hasNothing(lane) && hasLingered(lane, nowMs) && (lane.reading === 'caught_up' || lane.sender === null)
}

export const fetchRequest = (lane: Lane): FetchRequest => ({
  laneId: lane.lease.laneId,
  orgId: lane.lease.orgId,
  afterSeq: lane.readSeq,
  firstsMax: readAhead(lane),
  retriesMax: readAhead(lane),
  suspended: lane.isSuspended,
})

/** A retry, or a test event that does not wait for its turn. */
const isInLine = ({ attempts, early }: DueDelivery): boolean => attempts > 0 || early

export function takeFetched(lane: LaneRecord, request: FetchRequest, found: readonly DueDelivery[]): void {
  const retries = found.filter(isInLine)
  const firsts = found.filter((one) => !isInLine(one))
  const isFull = retries.length >= request.retriesMax
  if (lane.isResuming && !request.suspended) {
    lane.isResuming = isFull
    if (isFull) firsts.length = 0
  }
  // The largest of before counts for half: bodies may have become small again.
  lane.bodyBytes = found.reduce((largest, { body }) => Math.max(largest, body.length), lane.bodyBytes / 2)
  // A retry that is waiting here, or is being begun, is still in line in the database. Of the latter nothing begins twice.
  const known = new Set(lane.retries.map((one) => one.eventSeq))
  // A probe that was read before and has not begun: one is enough.
  const hasProbe = request.suspended && [...lane.retries, ...lane.firsts].some((one) => !one.requested)
  lane.retries.push(...retries.filter((one) => !known.has(one.eventSeq) && (one.requested || !hasProbe)))
  if (hasProbe) firsts.length = 0
  lane.firsts.push(...firsts)
  lane.readSeq = firsts.at(-1)?.eventSeq ?? lane.readSeq
  const isAll = (request.suspended || firsts.length < request.firstsMax) && !isFull
  changeReading(lane, isAll ? 'fetched_all' : 'fetched_page')
}

/** The next attempt is being begun. Retries first: they have waited longest. */
export function takeNext(lane: LaneRecord, nowMs: number): ReadDelivery {
  if (lane.rateLimit !== null) {
    lane.tokens = tokensAt(lane, nowMs) - 1
    lane.filledAtMs = nowMs
  }
  lane.inFlight += 1
  lane.unsettled += 1
  return (lane.retries.shift() ?? lane.firsts.shift())!
}

/** It did not begin: its lane's row is locked, or it had begun before, or a suspended lane may not be tried yet. */
export function notBegun(lane: LaneRecord, wasSuspended: boolean): void {
  // What was read of it would be left out otherwise, also if the suspension has ended since.
  if (wasSuspended) lane.isOutdated = true
  if (lane.rateLimit !== null) lane.tokens += 1
  lane.inFlight -= 1
  lane.unsettled -= 1
}

/** `inFlight`: of all lanes. */
export function endRequest(lane: LaneRecord, exchange: Exchange, limits: { max: number; inFlight: number }): void {
  lane.inFlight -= 1
  lane.concurrency = nextConcurrency(lane.concurrency, exchange, hasWork(lane), limits)
}

/** The outcome of an attempt is on disk, or belongs to the lane's next holder. */
export function settled(lane: LaneRecord): void {
  lane.unsettled -= 1
}

/** What could not begin goes back to where it was, in order. */
export function putBack(lane: LaneRecord, deliveries: readonly ReadDelivery[]): void {
  lane.retries.unshift(...deliveries.filter(isInLine))
  lane.firsts.unshift(...deliveries.filter((one) => !isInLine(one)))
}

/*
 * The limit of a webhook in deliveries per second: a token bucket for each lane, by the clock of its holder. One process holds a lane
 * at a time, so one bucket is enough for all. A new holder starts with a full one: it may send one burst more.
 */

/** What may begin at once after a wait. A second has so much more than its limit at most. */
const burstMs = 100
/** Shorter waits would begin few deliveries with each statement. */
const waitMsMin = 25

const burstOf = (rateLimit: number): number => Math.max(1, (rateLimit * burstMs) / 1_000)

function tokensAt({ rateLimit, tokens, filledAtMs }: Lane, nowMs: number): number {
  if (rateLimit === null) return Number.POSITIVE_INFINITY
  // A clock that was set back adds nothing.
  return Math.min(burstOf(rateLimit), tokens + (Math.max(0, nowMs - filledAtMs) * rateLimit) / 1_000)
}

/** How long to wait until a delivery may begin; zero: it may now. */
export function limitWaitMs(lane: Lane, nowMs: number): number {
  const tokens = tokensAt(lane, nowMs)
  if (lane.rateLimit === null || tokens >= 1) return 0
  return Math.max(waitMsMin, Math.ceil(((1 - tokens) * 1_000) / lane.rateLimit))
}

/** Nothing of the limit is used up: whoever holds the lane next may start with a full bucket. */
const isFull = (lane: Lane, nowMs: number): boolean =>
  lane.rateLimit === null || tokensAt(lane, nowMs) >= burstOf(lane.rateLimit)
