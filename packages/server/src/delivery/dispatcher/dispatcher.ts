import { createBatcher } from '../../lib/batcher.ts'
import { type Clock, createTimers, pause, retryUntilAccepted, within } from '../../lib/clock.ts'
import type { OrgId } from '../../lib/ids.ts'
import type { RetrySchedule } from '../retry-schedule.ts'
import type { Exchange, OpenSender } from '../sender/port.ts'
import type { NewAttempt } from '../statements/begin.ts'
import type { DueDelivery } from '../statements/fetch.ts'
import { canRelease, change, extend, hasLingered, isWorthPolling, type Lane, settled } from './lane.ts'
import { createHeldLanes, createLeases } from './leases.ts'
import { afterAttempt, createSettler, delayAfter, interrupted } from './outcome.ts'
import type { DispatcherLimits, DispatchStore, Retry } from './ports.ts'
import { beginsMax, createWork, type DispatchObserver, type Starting } from './work.ts'

/** How long a lane whose row is locked is left alone. */
const lockedMs = 25
const releaseMs = 250
const pausesOfRetry = { pauseMsMin: 50, pauseMsMax: 1_000 }
/** A retry sooner than this finds its lane still held; for a later one the lane is due in the database. */
const soonMs = 2_000
/** Hints for organizations that have lanes here look for further, free lanes at most this often. */
const lookMsMin = 25
/**
 * Deleting a webhook waits half a second for attempts that were begun before. So an attempt is sent within this time of its begin, or
 * is interrupted; and when PostgreSQL took long to answer, the lease is checked again first.
 */
const sendMsMax = 450
const answerMsMax = 350

export type Dispatcher = ReturnType<typeof createDispatcher>

/** When it stops: first nothing more begins, then nothing more is sent, and in the end nothing more is written. */
type Mode = 'running' | 'draining' | 'interrupting' | 'over'

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
  ensurePartitions(): Promise<void>
  /** The database cannot store what it was given: sending it again changes nothing. */
  isDataError(error: unknown): boolean
  onError(error: unknown, step: string): void
  observe: DispatchObserver
}) {
  const { store, clock, limits, observe } = deps
  const held = createHeldLanes()
  const timers = createTimers(clock, (error) => deps.onError(error, 'timer'))
  let isLooking = false
  let lookAgain = false
  let isFull = false
  let cancelLook: (() => void) | null = null
  let mode: Mode = 'running'

  /** Every statement may be sent twice. Once the dispatcher is over, errors are thrown instead. */
  const retry: Retry = (step, statement, repair) => {
    const isTransient = () => mode !== 'over'
    const onRetry = async (error: unknown) => {
      deps.onError(error, step)
      await repair?.(error)
    }
    return retryUntilAccepted({ ...pausesOfRetry, pause: (ms) => pause(clock, ms), isTransient, onRetry }, statement)
  }
  const work = createWork({ ...deps, ...limits, retry })
  const leases = createLeases({ ...deps, ...limits, retry, held })
  const settler = createSettler({ ...deps, retry, observe: (size, ours) => observe.batch('settle', size, ours) })
  const releases = createBatcher<Lane>({ clock, sizeMax: 500, concurrencyMax: 1, run: release })

  // 1. Find lanes: wake-ups first, then free lanes that are due.

  async function look(): Promise<void> {
    lookAgain = true
    if (isLooking) return
    isLooking = true
    try {
      while (lookAgain && mode === 'running') {
        lookAgain = false
        await leases.wake()
        const room = work.room()
        isFull = room <= 0 || held.size >= limits.lanesMax
        const { opened, mayBeMore } = await leases.lease(room)
        for (const lane of opened) hold(lane)
        if (mayBeMore) lookAgain = true
      }
    } catch (error) {
      deps.onError(error, 'look')
    } finally {
      isLooking = false
    }
  }

  function lookSoon(): void {
    cancelLook ??= clock.after(lookMsMin, () => {
      cancelLook = null
      void look()
    })
  }

  function hold(lane: Lane): void {
    // A lease that expired here comes back with a new token.
    const before = held.get(lane.lease.laneId)
    if (before !== undefined) lose(before)
    held.add(lane)
    work.consider(lane)
  }

  async function poll(): Promise<void> {
    await look()
    for (const lane of held.all()) if (isWorthPolling(lane) && !hasLingered(lane, clock.now())) work.readAgain(lane)
  }

  // 2. Begin attempts, many lanes in one statement.

  async function beginAll(): Promise<void> {
    while (mode === 'running') {
      const batch = await work.nextBatch()
      await begin(batch).catch((error: unknown) => deps.onError(error, 'begin'))
    }
  }

  async function begin(batch: readonly Starting[]): Promise<void> {
    const lanes = new Set(batch.map(({ lane }) => lane))
    const attempts = batch.map(({ attempt }) => attempt)
    let sentMs = 0
    const { lanes: covered, begun } = await retry('begin', () => {
      sentMs = clock.now()
      // Its time is signed, and receivers reject what is old.
      for (const attempt of attempts) attempt.startedAtMs = sentMs
      return store.begin(attempts)
    })
    observe.batch('begin', batch.length, begun.size)
    if (clock.now() - sentMs > answerMsMax) {
      sentMs = clock.now()
      for (const lane of await leases.renew([...lanes])) lose(lane)
    }
    const sendByMs = Math.max(sentMs + sendMsMax, clock.now() + sendMsMax - answerMsMax)
    for (const one of batch) {
      const tries = begun.get(one.attempt.attemptId)
      if (tries === undefined) work.notBegun(one)
      else {
        one.attempt.tries = tries
        void deliver(one, sendByMs)
      }
    }
    const skipped: Lane[] = []
    for (const lane of lanes) {
      change(lane, 'begun')
      if (covered.has(lane.lease.laneId)) extend(lane, clock.now())
      else skipped.push(lane)
      if (lane.state === 'lost') giveBackLost(lane)
      else work.consider(lane)
    }
    if (skipped.length > 0) check(skipped, batch).catch((error: unknown) => deps.onError(error, 'renew'))
  }

  /** In these nothing was begun: their rows are locked, their webhooks were paused or changed, or they are lost. */
  async function check(lanes: readonly Lane[], batch: readonly Starting[]): Promise<void> {
    for (const lane of lanes) if (lane.state !== 'lost') work.postpone(lane, batch, lockedMs)
    for (const lane of await leases.renew(lanes)) lose(lane)
  }

  // 3. Deliver: one attempt, from disk to disk.

  async function deliver({ lane, delivery, attempt }: Starting, sendByMs: number): Promise<void> {
    const isOurs = lane.state !== 'lost' && (mode === 'running' || mode === 'draining')
    const exchange = isOurs ? await send(lane, delivery, attempt, sendByMs) : interrupted
    work.ended(lane, exchange)
    const delayMs = delayAfter(exchange, deps.random())
    if (delayMs > 0) work.delayLane(lane, delayMs)
    const isProbe = attempt.suspended && !delivery.requested
    const rules = { schedule: deps.schedule, random: deps.random(), probeMs: isProbe ? limits.probeMs : null }
    const { tries, retryMs } = afterAttempt(exchange, attempt.tries, rules)
    observe.attempted({ lane, delivery, attempt, exchange, retryMs })
    work.consider(lane)
    await settler.settle({ attempt, outcome: exchange, tries, retryMs })
    settled(lane)
    if (lane.state === 'lost') return giveBackLost(lane)
    if (retryMs !== null && retryMs < soonMs) clock.after(retryMs, () => work.readAgain(lane))
    work.consider(lane)
  }

  function send(lane: Lane, delivery: DueDelivery, attempt: NewAttempt, sendByMs: number): Promise<Exchange> {
    const { eventId, eventType, body, sequence, previousSequence } = delivery
    const mayStillSend = () => store.isHeld(attempt)
    const content = { eventId, eventType, body, startedAtMs: attempt.startedAtMs, sequence, previousSequence }
    return new Promise((done) => lane.sender!.send({ ...content, sendByMs, mayStillSend }, done))
  }

  // 4. Keep leases, and give lanes back.

  /** Lanes that begin attempts extend their leases by that. */
  async function renew(): Promise<void> {
    const before = clock.now() - limits.leaseMs / 6
    await renewThese(held.all().filter((lane) => lane.state !== 'releasing' && lane.extendedAtMs <= before))
  }

  async function renewThese(lanes: readonly Lane[]): Promise<void> {
    for (const lane of await leases.renew(lanes)) lose(lane)
    for (const lane of lanes) work.consider(lane)
  }

  /** The lease or the webhook is gone: nothing more begins here. */
  function lose(lane: Lane): void {
    if (lane.state === 'lost') return
    forget(lane)
    giveBackLost(lane)
  }

  function forget(lane: Lane): void {
    held.remove(lane)
    work.drop(lane)
  }

  /** No other process may hold it yet, as after a restart of PostgreSQL. Once its attempts are recorded, others may lease it at once. */
  function giveBackLost(lane: Lane): void {
    if (lane.unsettled === 0) releases.add(lane)
  }

  function releaseIdle(): void {
    for (const lane of held.all()) {
      if (!canRelease(lane, clock.now())) continue
      change(lane, 'release')
      releases.add(lane)
    }
  }

  async function release(lanes: Lane[]): Promise<void> {
    try {
      const { gone, kept, lost } = await leases.release(lanes)
      for (const lane of gone) forget(lane)
      for (const lane of lost) lose(lane)
      for (const lane of kept) work.consider(lane)
      // There is room again for lanes that were left to others.
      if (isFull) void look()
    } catch (error) {
      deps.onError(error, 'release')
    }
  }

  async function handOver(): Promise<void> {
    // A lease that is under way would come after everything was given back.
    while ((isLooking || work.inFlight > 0) && mode !== 'over') await pause(clock, 5)
    await settler.idle()
    await releases.idle()
    if (held.size > 0) await leases.abandon(held.all())
  }

  return {
    start() {
      for (let i = 0; i < beginsMax; i++) void beginAll()
      void look()
      timers.every(limits.pollMs, poll)
      timers.every(limits.leaseMs / 6, renew)
      timers.every(releaseMs, releaseIdle)
    },
    /** These organizations may have something to deliver; null: any may. Polling finds everything in any case. */
    hint(orgIds: readonly OrgId[] | null) {
      if (mode !== 'running') return
      const lanes = orgIds === null ? held.all() : orgIds.flatMap((orgId) => [...held.of(orgId)])
      for (const lane of lanes) work.readAgain(lane)
      // A pause or a suspension may have ended while a request was still in flight.
      renewThese(lanes.filter((lane) => lane.isPaused || lane.isSuspended)).catch((error: unknown) =>
        deps.onError(error, 'renew'),
      )
      // Lanes of an organization that has none here may be free; where it has some, mostly all are held.
      if (orgIds?.every(held.holdsAnyOf)) lookSoon()
      else void look()
    },
    /** Begins nothing more, waits for what is in flight up to the limit, then interrupts it and gives every lane back. */
    async stop() {
      mode = 'draining'
      work.stop()
      timers.stop()
      cancelLook?.()
      // Leases are kept meanwhile: a lane must not be taken while its request may still succeed.
      const keep = createTimers(clock, () => {})
      keep.every(limits.leaseMs / 6, renew)
      const until = clock.now() + limits.drainMsMax
      while (work.inFlight > 0 && clock.now() < until) await pause(clock, 20)
      keep.stop()
      mode = 'interrupting'
      for (const lane of held.all()) lane.sender?.interrupt()
      // While PostgreSQL cannot be reached, nothing can be given back: the leases expire by themselves.
      const handedOver = handOver().catch((error) => deps.onError(error, 'stop'))
      await within(clock, 5_000, handedOver)
      mode = 'over'
    },
    get lanes() {
      return held.size
    },
    get inFlight() {
      return work.inFlight
    },
  }
}
