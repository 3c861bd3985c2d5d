import { createBatcher } from '../../lib/batcher.ts'
import type { Clock } from '../../lib/clock.ts'
import { takeOut } from '../../lib/lists.ts'
import type { Exchange } from '../sender/port.ts'
import type { NewAttempt } from '../statements/begin.ts'
import type { DueDelivery } from '../statements/fetch.ts'
import {
  canBegin,
  change,
  changeReading,
  delayUntil,
  drop,
  endDelay,
  endRequest,
  fetchRequest,
  hasWork,
  type Lane,
  limitWaitMs,
  notBegun,
  noteIdle,
  putBack,
  setQueued,
  takeFetched,
  takeNext,
  wantsFetch,
  wantsToken,
} from './lane.ts'
import type { DispatchStore, Retry } from './ports.ts'

/** How many begin statements may run at once. */
export const beginsMax = 2
const batchMax = 256
const lanesPerFetch = 256
/** With fewer lanes waiting they begin together, after the begin that is under way: a statement and a flush each cost more. */
const lanesForSecondBegin = 16

/** An attempt that is about to begin. */
export type Starting = { lane: Lane; delivery: DueDelivery; attempt: NewAttempt }
/** One that has ended. */
export type Attempted = Starting & { exchange: Exchange; retryMs: number | null }

export type DispatchObserver = {
  attempted(one: Attempted): void
  /** Sizes of the batches; `ours` counts the attempts that the lease still covered. */
  batch(kind: 'begin' | 'settle', size: number, ours: number): void
}

/**
 * What is to be done next: reads ahead for lanes that have room, and lets lanes begin in turns, organizations first. The dispatcher
 * takes batches from here with `nextBatch`. No batcher of `lib`: whose turn it is, is decided when a statement can be sent.
 */
export function createWork(deps: {
  store: Pick<DispatchStore, 'fetch'>
  clock: Clock
  retry: Retry
  newAttemptId(nowMs: number): string
  inFlightMax: number
  laneConcurrencyMax: number
  onError(error: unknown, step: string): void
}) {
  const { clock } = deps
  const queue = createFairQueue<Lane>((lane) => lane.lease.orgId, setQueued)
  const fetches = createBatcher<Lane>({ clock, sizeMax: lanesPerFetch, concurrencyMax: 2, run: fetch })
  const waiters: ((batch: Starting[]) => void)[] = []
  let isScheduled = false
  let isStopped = false
  let inFlight = 0

  /** Looks at a lane after anything about it has changed. */
  function consider(lane: Lane): void {
    if (lane.state !== 'lost' && !isStopped) {
      if (wantsFetch(lane)) {
        changeReading(lane, 'fetch')
        fetches.add(lane)
      }
      if (canBegin(lane, clock.now())) queue.add(lane)
      else if (wantsToken(lane, clock.now())) delayLane(lane, limitWaitMs(lane, clock.now()))
    }
    noteIdle(lane, clock.now())
    schedule()
  }

  async function fetch(asked: Lane[]): Promise<void> {
    const lanes = asked.filter((lane) => lane.state !== 'lost')
    if (lanes.length === 0) return
    const requests = lanes.map(fetchRequest)
    try {
      const found = await deps.retry('fetch', () => deps.store.fetch(requests))
      const byLane = Map.groupBy(found, (one) => one.laneId)
      lanes.forEach((lane, i) => {
        if (lane.state === 'lost') return
        takeFetched(lane, requests[i]!, byLane.get(lane.lease.laneId) ?? [])
        consider(lane)
      })
    } catch (error) {
      deps.onError(error, 'fetch')
    }
  }

  function schedule(): void {
    // With nothing free to take, the end of a request schedules again.
    if (isStopped || isScheduled || queue.size === 0 || waiters.length === 0 || inFlight >= deps.inFlightMax) return
    if (waiters.length < beginsMax && queue.size < lanesForSecondBegin) return
    isScheduled = true
    clock.soon(() => {
      isScheduled = false
      const batch = takeTurns()
      if (batch.length > 0) waiters.shift()?.(batch)
      schedule()
    })
  }

  function takeTurns(): Starting[] {
    const batch: Starting[] = []
    const taken = new Set<Lane>()
    const nowMs = clock.now()
    while (!isStopped && batch.length < batchMax && inFlight < deps.inFlightMax) {
      const lane = queue.next()
      if (lane === undefined) break
      if (!taken.has(lane)) {
        if (!canBegin(lane, nowMs)) continue
        change(lane, 'begin')
        taken.add(lane)
      }
      batch.push(prepare(lane, nowMs))
      const hasMore = hasWork(lane) && lane.inFlight < Math.floor(lane.concurrency)
      if (hasMore && limitWaitMs(lane, nowMs) === 0) queue.add(lane)
    }
    return batch
  }

  function prepare(lane: Lane, nowMs: number): Starting {
    const delivery = takeNext(lane, nowMs)
    const { laneId, token } = lane.lease
    const { eventSeq, attempts, tries, early } = delivery
    const attempt = {
      laneId,
      token,
      eventSeq,
      attempt: attempts + 1,
      tries,
      attemptId: delivery.attemptId ?? deps.newAttemptId(nowMs),
      startedAtMs: nowMs,
      version: lane.version,
      early,
      suspended: lane.isSuspended,
    }
    inFlight += 1
    return { lane, delivery, attempt }
  }

  function delayLane(lane: Lane, ms: number): void {
    const untilMs = clock.now() + ms
    if (!delayUntil(lane, untilMs)) return
    clock.after(ms, () => {
      endDelay(lane, untilMs)
      consider(lane)
    })
  }

  return {
    consider,
    delayLane,
    /** There may be something new in the lane. */
    readAgain(lane: Lane): void {
      changeReading(lane, 'hint')
      consider(lane)
    },
    /** Resolves when there is something to begin. */
    nextBatch: (): Promise<Starting[]> =>
      new Promise((take) => {
        waiters.push(take)
        schedule()
      }),
    ended(lane: Lane, exchange: Exchange): void {
      inFlight -= 1
      endRequest(lane, exchange, { max: deps.laneConcurrencyMax, inFlight })
      schedule()
    },
    notBegun({ lane, attempt }: Starting): void {
      notBegun(lane, attempt.suspended)
      inFlight -= 1
      schedule()
    },
    /** Tried again later, in the same order and with the same ids: an earlier begin whose answer was lost may have written them. */
    postpone(lane: Lane, batch: readonly Starting[], ms: number): void {
      const theirs = batch.filter((one) => one.lane === lane)
      putBack(
        lane,
        theirs.map(({ delivery, attempt }) => ({ ...delivery, attemptId: attempt.attemptId })),
      )
      delayLane(lane, ms)
    },
    drop(lane: Lane): void {
      queue.remove(lane)
      drop(lane)
    },
    /** How many more lanes could send right now. */
    room: (): number => Math.min(deps.inFlightMax - inFlight, 2 * batchMax - queue.size),
    stop(): void {
      isStopped = true
    },
    get inFlight() {
      return inFlight
    },
  }
}

/**
 * Whose turn is it? Organizations take turns first, then the lanes of one: an organization with a thousand busy webhooks
 * gets no more turns than one with a single webhook. A lane that is taken goes to the back when it is added again.
 * Whether it waits is a field of it, which `setQueued` writes.
 */
export function createFairQueue<L extends { readonly isQueued: boolean }>(
  organizationOf: (lane: L) => string,
  setQueued: (lane: L, isQueued: boolean) => void,
) {
  /** The lanes of each organization, the longest-waiting first; none of them empty. */
  const waiting = new Map<string, L[]>()
  /** Organizations in the order of their turns. */
  const turns: string[] = []
  let size = 0

  return {
    /** Does nothing for a lane that is already waiting. */
    add(lane: L): void {
      if (lane.isQueued) return
      setQueued(lane, true)
      size += 1
      const organization = organizationOf(lane)
      const lanes = waiting.get(organization)
      if (lanes !== undefined) {
        lanes.push(lane)
        return
      }
      waiting.set(organization, [lane])
      turns.push(organization)
    },
    remove(lane: L): void {
      if (!lane.isQueued) return
      setQueued(lane, false)
      size -= 1
      const organization = organizationOf(lane)
      const lanes = waiting.get(organization)!
      takeOut(lanes, lane)
      if (lanes.length > 0) return
      waiting.delete(organization)
      takeOut(turns, organization)
    },
    next(): L | undefined {
      const organization = turns.shift()
      if (organization === undefined) return undefined
      const lanes = waiting.get(organization)!
      const lane = lanes.shift()!
      if (lanes.length > 0) turns.push(organization)
      else waiting.delete(organization)
      setQueued(lane, false)
      size -= 1
      return lane
    },
    get size() {
      return size
    },
  }
}
