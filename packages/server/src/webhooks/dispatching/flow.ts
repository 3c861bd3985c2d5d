import { recordHeaders } from '../../domain/recorded-headers.ts'
import type { RetrySchedule } from '../../domain/retry-schedule.ts'
import { takeOut } from '../../kernel/lists.ts'
import { uuid7 } from '../../kernel/uuid7.ts'
import type { SettledAttempt } from '../../store/delivery/attempts.ts'
import type { Beginning, BegunAttempt, Leftover, MayGo } from '../../store/delivery/beginnings.ts'
import type { DueDelivery } from '../../store/delivery/due.ts'
import { unknownOutcome } from './attempt-record.ts'
import { type Clock, pause } from './clock.ts'
import type { DispatchStore } from './dispatch-store.ts'
import { createFairQueue } from './fair-queue.ts'
import { createGroup } from './group.ts'
import type { Insist } from './insist.ts'
import {
  begunSurely,
  canStart,
  isIdle,
  type Lane,
  readAgain,
  readRequest,
  type Starting,
  surmisedOf,
  takeIn,
  takeNext,
  wantsRead,
} from './lane.ts'
import { isLate, setLeaveTimes } from './leaving.ts'
import { type Attempted, createSending } from './sending.ts'
import { createSettling } from './settling.ts'

export type FlowObserver = {
  attempted(one: Attempted): void
  /** Sizes of the groups in which attempts are begun and settled; `ours` counts the attempts that the lease still covered. */
  grouped(kind: 'begin' | 'settle', size: number, ours: number): void
}

type Settling = SettledAttempt & { lane: Lane }

const lanesPerRead = 256
const beginningsMax = 2
/**
 * So few lanes wait for the beginning that is on its way, and begin together after it. A statement and a flush for each event would
 * take more of the processors than the wait is worth: at 2,500 deliveries a second the median was 20 to 40 % higher.
 */
const lanesBesideMin = 16
/** But no longer than this: it may itself be waiting, for a lane that is locked. */
const patienceMs = 20
/** How long a lane that is locked is left alone before the next try to begin there. */
const lockedMs = 100
/** Retries sooner than this find their lane still held; for later ones it is found due in the database. */
const soonMs = 2_000

export type Flow = ReturnType<typeof createFlow>

/**
 * What happens to the deliveries of the lanes that are held: read ahead, begin (on disk), send, settle (on disk), and give
 * the lane back when nothing is left. No step holds a connection of the database while a request is on its way.
 */
export function createFlow(deps: {
  store: DispatchStore
  clock: Clock
  random(): number
  insist: Insist
  schedule: RetrySchedule
  inFlightMax: number
  groupMax: number
  observe: FlowObserver
  /** The lane has nothing to do. */
  onIdle(lane: Lane): void
  /** The database says that the lane is not ours any more, or that its webhook is gone; said again as its attempts are settled. */
  onLost(lane: Lane): void
  mend(attemptIds: readonly string[]): Promise<void>
  isDataError(error: unknown): boolean
}) {
  const { store, clock } = deps
  const turns = createFairQueue<Lane>((lane) => lane.leased.orgId)
  let inFlight = 0
  const beginnings: Promise<unknown>[] = []
  const aside = new Set<Promise<unknown>>()
  let startScheduled = false
  let patientUntilMs = 0
  let stopped = false
  let cutOff = false

  const reads = createGroup<Lane>({ clock, sizeMax: lanesPerRead, atOnceMax: 2, run: readLanes })
  const settling = createSettling<Settling>({ ...deps, afterSettling })
  const { sendReady } = createSending({
    clock,
    random: deps.random,
    schedule: deps.schedule,
    onEnd() {
      inFlight -= 1
      return inFlight
    },
    interrupt,
    settle: settling.add,
    attempted: deps.observe.attempted,
    isHeld: ({ leased }) => store.isHeld(leased),
    consider(lane) {
      // There is room again, perhaps for another.
      startOthers()
      consider(lane)
    },
  })

  /** Looks at a lane after something about it has changed, and sees to what it needs next. */
  function consider(lane: Lane): void {
    if (lane.gone) return
    if (!stopped && wantsRead(lane)) {
      lane.reading = true
      reads.add(lane)
    }
    if (!stopped && canStart(lane)) {
      turns.add(lane)
      scheduleStart()
    } else if (isIdle(lane)) deps.onIdle(lane)
  }

  async function readLanes(asked: Lane[]): Promise<void> {
    // Not for one that was lost meanwhile: leased anew it stands here under the same id, and would get both answers.
    const lanes = asked.filter((lane) => !lane.gone)
    if (lanes.length === 0) return
    const requests = lanes.map(readRequest)
    const found = await deps.insist('read', () => store.read(requests))
    const byLane = new Map<number, DueDelivery[]>()
    for (const one of found) {
      const list = byLane.get(one.laneId)
      if (list === undefined) byLane.set(one.laneId, [one])
      else list.push(one)
    }
    lanes.forEach((lane, i) => {
      lane.reading = false
      takeIn(lane, requests[i]!, byLane.get(lane.leased.laneId) ?? [])
      consider(lane)
    })
  }

  function scheduleStart(): void {
    if (startScheduled || beginnings.length >= beginningsMax) return
    if (beginnings.length > 0 && turns.size < lanesBesideMin && clock.now() < patientUntilMs) return
    startScheduled = true
    clock.soon(() => {
      startScheduled = false
      void start()
    })
  }

  function startOthers(): void {
    if (turns.size > 0) scheduleStart()
  }

  /** Takes turns until the group or the process is full. */
  async function start(): Promise<void> {
    if (stopped || beginnings.length >= beginningsMax) return
    const group: Starting[] = []
    const now = clock.now()
    while (group.length < deps.groupMax && inFlight < deps.inFlightMax) {
      const lane = turns.next()
      if (lane === undefined) break
      // One group of a lane at a time: were a later one on disk and the earlier lost with this process, the cursor would
      // stand behind a delivery that never began, and nobody would look for it.
      if (!canStart(lane) || (lane.starting > 0 && lane.group !== group)) continue
      lane.group = group
      group.push(prepare(lane, now))
      if (canStart(lane)) turns.add(lane)
    }
    if (group.length > 0) await begin(group)
  }

  /** Writes the group down, then sends it. */
  async function begin(group: readonly Starting[]): Promise<void> {
    const beginning = sayBegun(group)
    beginnings.push(beginning)
    patientUntilMs = clock.now() + patienceMs
    const calm = clock.after(patienceMs + 1, startOthers)
    startOthers()
    const mayGo = await beginning
    calm()
    takeOut(beginnings, beginning)
    const locked: Starting[] = []
    let ours = 0
    const readyMs = clock.now()
    for (const one of group) {
      const { laneId, startedAtMs } = one.begun
      const tries = mayGo.get(laneId)
      if (tries === 'locked') {
        locked.push(one)
        continue
      }
      leaveStart(one)
      if (tries === 'gap') {
        takeBack(one)
        if (one.lane.gone) deps.onLost(one.lane)
        else readAgain(one.lane, one.begun)
        continue
      }
      if (tries === undefined) {
        refuse(one)
        continue
      }
      ours += 1
      begunSurely(one.lane, one.begun)
      if (cutOff || one.lane.gone) interrupt(one)
      else {
        setLeaveTimes(one, startedAtMs, readyMs)
        one.lane.ready.push(one)
      }
    }
    if (cutOff) for (const one of locked) leaveToNext(one)
    else if (locked.length > 0) beginAgain(locked)
    deps.observe.grouped('begin', group.length - locked.length, ours)
    for (const { lane } of group) {
      sendReady(lane)
      consider(lane)
    }
    startOthers()
  }

  /**
   * An answer that comes late is asked for once more: the same statement, which changes nothing and looks at the lanes again. Only
   * once, or nothing would ever leave where PostgreSQL always takes so long.
   */
  async function sayBegun(group: readonly Starting[]): Promise<MayGo> {
    const intents = beginningsOf(group)
    const say = async () => {
      const mayGo = await deps.insist('begin', () => {
        // Said again after an outage it begins now: its time is signed, and receivers refuse what is old.
        const now = clock.now()
        for (const { begun } of group) changeBegun(begun, now, begun.tries)
        return store.begin(intents)
      })
      // A redelivery that was asked for since the retry was read begins the schedule anew.
      for (const { begun } of group) {
        const tries = mayGo.get(begun.laneId)
        const before = typeof tries === 'string' ? undefined : tries?.get(begun.eventSeq)
        if (before !== undefined) changeBegun(begun, begun.startedAtMs, before)
      }
      return mayGo
    }
    const mayGo = await say()
    return isLate(group[0]!.begun.startedAtMs, clock.now()) && mayGo.size > 0 ? say() : mayGo
  }

  /** Somebody has these lanes locked. They take no place from others until it is their turn again. */
  function beginAgain(locked: readonly Starting[]): void {
    const again = pause(clock, lockedMs).then(() => begin(locked))
    aside.add(again)
    void again.then(() => aside.delete(again))
  }

  function prepare(lane: Lane, now: number): Starting {
    const delivery = takeNext(lane)
    lane.starting += 1
    if (delivery.attempts > 0) lane.retriesStarting += 1
    inFlight += 1
    const { laneId, token } = lane.leased
    const begun: BegunAttempt = {
      laneId,
      token,
      eventSeq: delivery.eventSeq,
      attempt: delivery.attempts + 1,
      tries: delivery.tries,
      attemptId: uuid7(now),
      startedAtMs: now,
      begunNo: 0,
      line: null,
    }
    lane.unsettled.push(begun)
    return { lane, delivery, begun, hurryMs: now, overMs: now }
  }

  function leaveStart({ lane, delivery }: Starting): void {
    lane.starting -= 1
    if (delivery.attempts > 0) lane.retriesStarting -= 1
  }

  /** We are stopping. What a first beginning may have put on disk stands among the unsettled, and is found by the next holder. */
  function leaveToNext(one: Starting): void {
    leaveStart(one)
    inFlight -= 1
  }

  /** It has not begun. */
  function takeBack({ lane, begun }: Starting): void {
    inFlight -= 1
    takeOut(lane.unsettled, begun)
  }

  function refuse(one: Starting): void {
    takeBack(one)
    deps.onLost(one.lane)
  }

  /** On disk, and too late to be sent: whoever looks next must find an outcome. */
  function interrupt({ lane, delivery, begun }: Starting): void {
    inFlight -= 1
    const headers = lane.sender.headers(delivery, begun.startedAtMs)
    const requestHeaders = recordHeaders(headers)
    settling.add({ lane, begun, requestHeaders, outcome: unknownOutcome, tries: begun.tries, retryMs: 0 })
    deps.observe.attempted({ lane, delivery, begun, exchange: unknownOutcome, retryMs: 0 })
  }

  function afterSettling({ lane, begun, retryMs }: Settling): void {
    takeOut(lane.unsettled, begun)
    if (retryMs === 0) lane.retriesDue = true
    else if (retryMs !== null && retryMs < soonMs) clock.after(retryMs, () => lookForRetries(lane))
    if (lane.gone) deps.onLost(lane)
    else consider(lane)
  }

  function lookForRetries(lane: Lane): void {
    lane.retriesDue = true
    consider(lane)
  }

  /** An attempt that a holder before us began and never settled: nobody knows what came of it. */
  function interruptLeftover(lane: Lane, left: Leftover): void {
    const { laneId, token, webhook } = lane.leased
    const { eventSeq, attempts: attempt, tries, attemptId, startedAtMs } = left
    const begun = { laneId, token, eventSeq, attempt, tries, attemptId, startedAtMs, begunNo: 0, line: null }
    // Ours now: what begins next in this lane is written down beside it.
    lane.unsettled.push(begun)
    const headers = webhook === null ? [] : lane.sender.headers(left, startedAtMs)
    const retryMs = webhook === null ? null : 0
    settling.add({ lane, begun, requestHeaders: recordHeaders(headers), outcome: unknownOutcome, tries, retryMs })
    deps.observe.attempted({ lane, delivery: left, begun, exchange: unknownOutcome, retryMs })
  }

  return {
    consider,
    interruptLeftover,
    /** It is not ours any more, or its webhook is gone: what was ready in it does not leave. */
    forget(lane: Lane) {
      turns.remove(lane)
      lane.resting?.()
      for (const one of lane.ready.splice(0)) interrupt(one)
    },
    /** Nothing more is started; what is in flight goes on. */
    stop: () => {
      stopped = true
    },
    /** Nothing more is sent either, not even what is being begun, and what is on its way ends here. */
    cutOff(lanes: Iterable<Lane>) {
      cutOff = true
      for (const lane of lanes) {
        lane.resting?.()
        for (const one of lane.ready.splice(0)) interrupt(one)
        lane.sender.interrupt()
      }
    },
    async settled(): Promise<void> {
      while (beginnings.length + aside.size > 0) await Promise.all([...beginnings, ...aside])
      await settling.settled()
    },
    get inFlight() {
      return inFlight
    },
    /** Lanes that could send and wait for their turn. */
    get waiting() {
      return turns.size
    },
  }
}

/** What was written of it before is not what is written from now on. */
function changeBegun(begun: BegunAttempt, startedAtMs: number, tries: number): void {
  begun.startedAtMs = startedAtMs
  begun.tries = tries
  begun.line = null
}

/** What begins, lane by lane, and beside it what each has on its way already. */
function beginningsOf(group: readonly Starting[]): Beginning[] {
  return Array.from(
    Map.groupBy(group, ({ lane }) => lane),
    ([lane, starting]) => {
      const { laneId, token } = lane.leased
      lane.begunNo += 1
      const fresh = starting.map(({ begun }) => begun)
      for (const begun of fresh) begun.begunNo = lane.begunNo
      const surmised = surmisedOf(lane, fresh)
      return { laneId, token, no: lane.begunNo, fresh, unsettled: [...lane.unsettled], surmised }
    },
  )
}
