import type { RetrySchedule } from '../../domain/retry-schedule.ts'
import type { OrgId } from '../../kernel/ids.ts'
import type { Exchange, OpenSender } from '../sender/port.ts'
import type { NewAttempt } from '../sql/begin.ts'
import type { DueDelivery } from '../sql/fetch.ts'
import { createBatcher } from './batcher.ts'
import { type Clock, createTimers, pause, within } from './clock.ts'
import { nextConcurrency } from './concurrency.ts'
import { createFairQueue } from './fair-queue.ts'
import { createHeldLanes } from './held-lanes.ts'
import {
  canBegin,
  change,
  changeReading,
  fetchRequest,
  hasNothing,
  hasWork,
  isIdle,
  isWorthPolling,
  type Lane,
  putBack,
  takeFetched,
  takeNext,
  wantsFetch,
} from './lane.ts'
import { createLeases } from './leases.ts'
import { afterAttempt, interrupted, pauseAfter } from './outcome.ts'
import { createRetry } from './retry.ts'
import { createSettler } from './settler.ts'
import type { DispatchStore } from './store.ts'

export type DispatcherLimits = {
  inFlightMax: number
  lanesMax: number
  laneConcurrencyMax: number
  leaseMs: number
  pollMs: number
  drainMsMax: number
}

/** One attempt and what came of it. */
export type Attempted = {
  lane: Lane
  delivery: DueDelivery
  attempt: NewAttempt
  exchange: Exchange
  retryMs: number | null
}

export type DispatchObserver = {
  attempted(one: Attempted): void
  /** Sizes of the batches; `ours` counts the attempts that the lease still covered. */
  batch(kind: 'begin' | 'settle', size: number, ours: number): void
}

export type Dispatcher = {
  start(): void
  /** These organizations may have something to deliver; null: any may. Polling finds everything in any case. */
  hint(orgIds: readonly OrgId[] | null): void
  /** Begins nothing more, waits for what is in flight up to the limit, then interrupts it and gives every lane back. */
  stop(): Promise<void>
  readonly lanes: number
  readonly inFlight: number
}

const batchMax = 256
const lanesPerFetch = 256
const beginsMax = 2
/** With fewer lanes waiting they begin together, after the begin that is under way: a statement and a flush each cost more. */
const lanesForSecondBegin = 16
/** How long a lane whose row is locked is left alone. */
const lockedMs = 25
/** An idle lane is kept for that long: leasing costs a statement, and a busy webhook is idle for moments. */
const lingerMs = 1_000
/** A retry sooner than this finds its lane still held; for a later one the lane is due in the database. */
const soonMs = 2_000
/** Hints for lanes that are held here also look for free lanes, but not each of them at once. */
const lookMsMin = 10
/**
 * Deleting a webhook waits half a second for attempts that were begun before. So an attempt is sent within this time of its begin, or
 * is interrupted; and when PostgreSQL took long to answer, the lease is checked again first.
 */
const sendMsMax = 450
const answerMsMax = 350

/** An attempt on its way from its lane to the sender. */
type Starting = { lane: Lane; delivery: DueDelivery; attempt: NewAttempt }

/**
 * Holds lanes and sends what is in them: wake, lease, fetch, begin (on disk), send, settle (on disk), release. Two dispatchers on one
 * database share the lanes, and every write is fenced by the lease's token. No connection is held while a request is in flight.
 */
export function createDispatcher(deps: {
  store: DispatchStore
  clock: Clock
  random(): number
  newAttemptId(nowMs: number): string
  owner: string
  limits: DispatcherLimits
  schedule: RetrySchedule
  openSender: OpenSender
  /** Creates missing partitions for these attempts. */
  ensurePartitions(attemptIds: readonly string[]): Promise<void>
  /** The database cannot store what it was given: sending it again changes nothing. */
  isDataError(error: unknown): boolean
  onError(error: unknown, step: string): void
  observe: DispatchObserver
}): Dispatcher {
  const { store, clock, limits, observe } = deps
  const held = createHeldLanes()
  const queue = createFairQueue<Lane>((lane) => lane.lease.orgId)
  const timers = createTimers(clock, (error) => deps.onError(error, 'timer'))
  let inFlight = 0
  let begins = 0
  let beginScheduled = false
  let isLooking = false
  let lookAgain = false
  let isFull = false
  let lookTimer: (() => void) | null = null
  /** `stopping`: nothing more begins. `cutOff`: nothing more is sent. `over`: nothing more is written. */
  let stopping = false
  let cutOff = false
  let over = false

  const retry = createRetry({ clock, isOver: () => over, onError: deps.onError })
  const leases = createLeases({ ...deps, ...limits, retry, held })
  const settler = createSettler({
    ...deps,
    batchMax,
    retry,
    observe: (size, recorded) => observe.batch('settle', size, recorded),
  })
  const fetches = createBatcher<Lane>({
    clock,
    sizeMax: lanesPerFetch,
    concurrencyMax: 2,
    run: guarded('fetch', fetch),
  })
  const releases = createBatcher<Lane>({ clock, sizeMax: 500, concurrencyMax: 1, run: guarded('release', release) })

  /** A step that fails was retried until the dispatcher was over. */
  function guarded<A extends unknown[]>(step: string, work: (...args: A) => Promise<void>) {
    return (...args: A) => work(...args).catch((error: unknown) => deps.onError(error, step))
  }

  // Finding lanes: wake-ups first, then free lanes that are due.

  const look = guarded('look', async () => {
    lookAgain = true
    if (isLooking) return
    isLooking = true
    try {
      while (lookAgain && !stopping) {
        lookAgain = false
        await leases.wake()
        if (stopping) break
        const room = Math.min(limits.inFlightMax - inFlight, 2 * batchMax - queue.size)
        isFull = room <= 0 || held.size >= limits.lanesMax
        const { opened, mayBeMore } = await leases.lease(room)
        for (const lane of opened) hold(lane)
        if (mayBeMore) lookAgain = true
      }
    } finally {
      isLooking = false
    }
  })

  function hold(lane: Lane): void {
    // A lease that expired here comes back with a new token.
    const before = held.get(lane.lease.laneId)
    if (before !== undefined) lose(before)
    held.add(lane)
    consider(lane)
  }

  function lookSoon(): void {
    lookTimer ??= clock.after(lookMsMin, () => {
      lookTimer = null
      void look()
    })
  }

  async function poll(): Promise<void> {
    await look()
    // A lane that is about to be given back is not read again: that would put it off, for ever where a read takes long.
    for (const lane of held.all()) if (isWorthPolling(lane) && !hasLingered(lane)) readAgain(lane)
  }

  function readAgain(lane: Lane): void {
    changeReading(lane, 'hint')
    consider(lane)
  }

  // What a lane needs next, after anything about it has changed.

  function consider(lane: Lane): void {
    if (lane.state === 'lost') return scheduleBegin()
    if (!stopping && wantsFetch(lane)) {
      changeReading(lane, 'fetch')
      fetches.add(lane)
    }
    if (!stopping && canBegin(lane, clock.now())) queue.add(lane)
    lane.idleSinceMs = hasNothing(lane) ? (lane.idleSinceMs ?? clock.now()) : null
    if (lane.sender === null && isIdle(lane) && !stopping) giveBack(lane)
    scheduleBegin()
  }

  async function fetch(asked: Lane[]): Promise<void> {
    const lanes = asked.filter((lane) => lane.state !== 'lost')
    const requests = lanes.map(fetchRequest)
    const found = lanes.length === 0 ? [] : await retry('fetch', () => store.fetch(requests))
    const byLane = Map.groupBy(found, (one) => one.laneId)
    lanes.forEach((lane, i) => {
      takeFetched(lane, requests[i]!, byLane.get(lane.lease.laneId) ?? [])
      consider(lane)
    })
  }

  // Beginning attempts: in turns across organizations, many lanes in one statement.

  function scheduleBegin(): void {
    if (beginScheduled || queue.size === 0 || begins >= beginsMax) return
    if (begins > 0 && queue.size < lanesForSecondBegin) return
    beginScheduled = true
    clock.soon(() => {
      beginScheduled = false
      const batch = takeTurns()
      if (batch.length > 0) void begin(batch)
    })
  }

  function takeTurns(): Starting[] {
    const batch: Starting[] = []
    const lanes = new Set<Lane>()
    const nowMs = clock.now()
    while (!stopping && batch.length < batchMax && inFlight < limits.inFlightMax) {
      const lane = queue.next()
      if (lane === undefined) break
      if (!canBegin(lane, nowMs) && !(lanes.has(lane) && hasMore(lane))) continue
      if (!lanes.has(lane)) change(lane, 'begin')
      lanes.add(lane)
      batch.push(prepare(lane, nowMs))
      if (hasMore(lane)) queue.add(lane)
    }
    return batch
  }

  const begin = guarded('begin', async (batch: readonly Starting[]) => {
    begins += 1
    let sentMs = 0
    try {
      const attempts = batch.map(({ attempt }) => attempt)
      const { lanes: covered, begun } = await retry('begin', () => {
        sentMs = clock.now()
        // Its time is signed, and receivers reject what is old.
        for (const attempt of attempts) attempt.startedAtMs = sentMs
        return store.begin(attempts)
      })
      observe.batch('begin', batch.length, begun.size)
      const lanes = new Set(batch.map(({ lane }) => lane))
      const skipped = [...lanes].filter((lane) => !covered.has(lane.lease.laneId))
      // When the answer took long, the webhook may be deleted by now.
      if (clock.now() - sentMs > answerMsMax) {
        sentMs = clock.now()
        for (const lane of await leases.renew([...lanes])) lose(lane)
      }
      const sendByMs = Math.max(sentMs + sendMsMax, clock.now() + sendMsMax - answerMsMax)
      for (const one of batch) {
        const tries = begun.get(one.attempt.attemptId)
        if (tries !== undefined) void deliver({ ...one, attempt: { ...one.attempt, tries } }, sendByMs)
        else takeBack(one)
      }
      for (const lane of skipped) postpone(lane, batch)
      for (const lane of lanes) {
        change(lane, 'begun')
        consider(lane)
      }
      for (const lane of await leases.renew(skipped)) lose(lane)
    } finally {
      begins -= 1
      scheduleBegin()
    }
  })

  function prepare(lane: Lane, nowMs: number): Starting {
    const delivery = takeNext(lane)
    const { laneId, token } = lane.lease
    const { eventSeq, attempts, tries } = delivery
    const attemptId = deps.newAttemptId(nowMs)
    lane.inFlight += 1
    lane.unsettled += 1
    inFlight += 1
    return {
      lane,
      delivery,
      attempt: { laneId, token, eventSeq, attempt: attempts + 1, tries, attemptId, startedAtMs: nowMs },
    }
  }

  /** It was not begun: the lane is not ours, or the same had been begun before. */
  function takeBack({ lane }: Starting): void {
    lane.inFlight -= 1
    lane.unsettled -= 1
    inFlight -= 1
    if (lane.state === 'lost') giveBackLost(lane)
  }

  /** The lane's row is locked, or the lane is lost. */
  function postpone(lane: Lane, batch: readonly Starting[]): void {
    const theirs = batch.filter((one) => one.lane === lane)
    putBack(
      lane,
      theirs.map(({ delivery }) => delivery),
    )
    pauseLane(lane, lockedMs)
  }

  function pauseLane(lane: Lane, ms: number): void {
    lane.pausedUntilMs = Math.max(lane.pausedUntilMs, clock.now() + ms)
    clock.after(ms, () => consider(lane))
  }

  // One attempt, from disk to disk.

  async function deliver({ lane, delivery, attempt }: Starting, sendByMs: number): Promise<void> {
    const isOurs = lane.state !== 'lost' && !cutOff
    const exchange = isOurs ? await send(lane, delivery, attempt, sendByMs) : interrupted
    lane.inFlight -= 1
    inFlight -= 1
    lane.concurrency = nextConcurrency(lane.concurrency, exchange, {
      max: limits.laneConcurrencyMax,
      wanted: hasWork(lane),
      inFlight,
    })
    const pauseMs = pauseAfter(exchange, deps.random())
    if (pauseMs > 0) pauseLane(lane, pauseMs)
    const { tries, retryMs } = afterAttempt(exchange, attempt.tries, { schedule: deps.schedule, random: deps.random() })
    observe.attempted({ lane, delivery, attempt, exchange, retryMs })
    consider(lane)
    await settler.settle({ attempt, outcome: exchange, tries, retryMs })
    lane.unsettled -= 1
    if (lane.state === 'lost') return giveBackLost(lane)
    if (retryMs !== null && retryMs < soonMs) clock.after(retryMs, () => readAgain(lane))
    consider(lane)
  }

  function send(lane: Lane, delivery: DueDelivery, attempt: NewAttempt, sendByMs: number): Promise<Exchange> {
    const { eventId, eventType, body } = delivery
    const { startedAtMs } = attempt
    const mayStillSend = () => store.isHeld(lane.lease)
    return new Promise((done) =>
      lane.sender!.send({ eventId, eventType, body, startedAtMs, sendByMs, mayStillSend }, done),
    )
  }

  // Keeping leases and giving lanes back.

  /** Lanes that begin attempts extend their leases by that. */
  async function renew(): Promise<void> {
    const before = clock.now() - limits.leaseMs / 6
    const old = held.all().filter((lane) => lane.state !== 'releasing' && lane.extendedAtMs <= before)
    for (const lane of await leases.renew(old)) lose(lane)
    for (const lane of old) consider(lane)
  }

  /** The lease or the webhook is gone: nothing more begins here. */
  function lose(lane: Lane): void {
    if (lane.state === 'lost') return
    change(lane, 'lose')
    forget(lane)
    giveBackLost(lane)
  }

  function forget(lane: Lane): void {
    held.remove(lane)
    queue.remove(lane)
    lane.retries = []
    lane.firsts = []
  }

  /** It may be nobody else's yet, as after a restart of PostgreSQL. Once its attempts are recorded, others may have it at once. */
  function giveBackLost(lane: Lane): void {
    if (lane.unsettled === 0) releases.add(lane)
  }

  function giveBack(lane: Lane): void {
    if (lane.state !== 'ready') return
    change(lane, 'release')
    releases.add(lane)
  }

  async function release(lanes: Lane[]): Promise<void> {
    const { gone, kept, lost } = await leases.release(lanes)
    for (const lane of gone) {
      change(lane, 'lose')
      forget(lane)
    }
    for (const lane of lost) lose(lane)
    for (const lane of kept) consider(lane)
    // There is room again for lanes that were left to others.
    if (isFull) void look()
  }

  function releaseIdle(): void {
    for (const lane of held.all()) if (isIdle(lane) && hasLingered(lane)) giveBack(lane)
  }

  const hasLingered = ({ idleSinceMs }: Lane): boolean => idleSinceMs !== null && idleSinceMs <= clock.now() - lingerMs

  async function waitForInFlight(msMax: number): Promise<void> {
    const until = clock.now() + msMax
    while (inFlight > 0 && clock.now() < until) await pause(clock, 20)
  }

  async function handOver(): Promise<void> {
    // A lease that is under way would come after everything was given back.
    while ((isLooking || inFlight > 0) && !over) await pause(clock, 5)
    await settler.idle()
    await releases.idle()
    if (held.size > 0) await leases.abandon(held.all())
  }

  return {
    start() {
      void look()
      timers.every(limits.pollMs, poll)
      timers.every(limits.leaseMs / 6, renew)
      timers.every(lingerMs / 4, releaseIdle)
    },
    hint(orgIds) {
      if (stopping) return
      const lanes = orgIds === null ? held.all() : orgIds.flatMap((orgId) => [...held.of(orgId)])
      for (const lane of lanes) readAgain(lane)
      // Lanes of an organization that has none here may be free; where it has some, mostly all are held.
      if (orgIds?.every(held.holdsAnyOf)) lookSoon()
      else void look()
    },
    async stop() {
      stopping = true
      timers.stop()
      lookTimer?.()
      // Leases are kept meanwhile: a lane must not be taken while its request may still succeed.
      const keep = createTimers(clock, () => {})
      keep.every(limits.leaseMs / 6, renew)
      await waitForInFlight(limits.drainMsMax)
      keep.stop()
      cutOff = true
      for (const lane of held.all()) lane.sender?.interrupt()
      // With PostgreSQL away nothing can be given back: the leases expire by themselves.
      await within(
        clock,
        5_000,
        handOver().catch((error) => deps.onError(error, 'stop')),
      )
      over = true
    },
    get lanes() {
      return held.size
    },
    get inFlight() {
      return inFlight
    },
  }
}

/** Within one batch a lane may take several turns; it is `beginning` by then. */
const hasMore = (lane: Lane): boolean => hasWork(lane) && lane.inFlight < Math.floor(lane.concurrency)
