import type { RetrySchedule } from '../../domain/retry-schedule.ts'
import type { Announcement } from '../../store/delivery/announcements.ts'
import type { LeasedLane } from '../../store/delivery/lanes.ts'
import { type Clock, pause, within } from './clock.ts'
import type { DispatchStore } from './dispatch-store.ts'
import { createFlow, type FlowObserver } from './flow.ts'
import { createHearing } from './hearing.ts'
import { createInsist } from './insist.ts'
import { hasRoom, hasWork, isBusy, isIdle, type Lane, type LaneSender } from './lane.ts'
import { createLeases, lingerMs } from './leases.ts'
import { createRounds } from './rounds.ts'

export type DispatcherLimits = {
  inFlightMax: number
  lanesMax: number
  laneWidthMax: number
  leaseMs: number
  pollMs: number
  drainMsMax: number
}

export type Dispatcher = {
  start(): void
  /**
   * There may be something to do, and perhaps somebody says what. Only ever a hint: everything is also found by looking now and
   * then. Says whether all of it is for lanes that are held here.
   */
  hint(announcements?: readonly Announcement[] | null): boolean
  /** Another dispatcher was told of news for lanes that it does not hold. */
  hintHeld(): void
  /** Starts nothing more, waits for what is in flight up to the bound, then ends it and gives every lane back. */
  stop(): Promise<void>
  readonly lanes: number
  readonly inFlight: number
}

const lanesPerPeek = 500
const groupMax = 256
/** Lanes with something in flight look for retries that have come due at least this often. */
const retryLookMs = 1_000
/**
 * Holds lanes and keeps them flowing. Two of these on one database share the lanes: a lane belongs to whoever holds its
 * lease, and every write shows the lease's token.
 */
export function createDispatcher(deps: {
  store: DispatchStore
  clock: Clock
  random(): number
  owner: string
  limits: DispatcherLimits
  schedule: RetrySchedule
  /** Null when the lane cannot be sent from here, because no key opens its secret. */
  open(leased: LeasedLane): LaneSender | null
  /** Sees to what a statement about these attempts was refused for, such as a partition that is missing. */
  mend(attemptIds: readonly string[]): Promise<void>
  isUnavailable(error: unknown): boolean
  /** What was to be stored cannot be stored: saying it again changes nothing. */
  isDataError(error: unknown): boolean
  onError(error: unknown, what: string): void
  observe: FlowObserver
  tellHolders(): void
}): Dispatcher {
  const { store, clock, limits } = deps
  const lanes = new Map<number, Lane>()
  let stopping = false
  let over = false
  let looking = false
  let lookAgain = false
  let leaseAgain = false

  const rounds = createRounds({ clock, onError: (error) => deps.onError(error, 'round') })
  const insist = createInsist({
    clock,
    isUnavailable: deps.isUnavailable,
    onRetry: deps.onError,
    isOver: () => over,
  })
  const flow = createFlow({
    store,
    clock,
    random: deps.random,
    insist,
    schedule: deps.schedule,
    inFlightMax: limits.inFlightMax,
    groupMax,
    observe: deps.observe,
    onIdle(lane) {
      const isNew = lane.idleSince === null
      lane.idleSince ??= clock.now()
      // At once, but only once: where it is locked and stays with us, it goes back with the others that are idle.
      if (isNew && lane.leased.webhook === null && !stopping) leases.giveBack(lane)
    },
    onLost: (lane) => leases.drop(lane),
    mend: deps.mend,
    isDataError: deps.isDataError,
  })

  const leases = createLeases({
    store,
    clock,
    insist,
    owner: deps.owner,
    lanes,
    flow,
    limits: { ...limits, waitingMax: groupMax * 2 },
    open: deps.open,
    tell,
    onRoom: () => void look({ forLanes: true }),
  })

  const hearing = createHearing({
    store,
    owner: deps.owner,
    lanes,
    tell,
    tellHolders: deps.tellHolders,
  })

  function tell(lane: Lane, news: { headSeq: number; asked?: number }): void {
    if (news.asked !== undefined && news.asked !== lane.asked) {
      lane.asked = news.asked
      lane.retriesDue = true
    }
    if (news.headSeq > lane.headSeq) lane.headSeq = news.headSeq
    if (!isIdle(lane)) lane.idleSince = null
    flow.consider(lane)
  }

  /** News first. Free lanes are looked for when the news is of one, and else now and then: mostly there is none. */
  async function look({ forLanes }: { forLanes: boolean }): Promise<void> {
    lookAgain = looking || lookAgain
    leaseAgain = forLanes || leaseAgain
    if (looking || stopping) return
    looking = true
    try {
      do {
        lookAgain = false
        // Taken before we listen: whoever asks for lanes meanwhile has to wait for the next writing.
        const wantsLanes = leaseAgain
        leaseAgain = false
        const { forFree, more } = await hearing.hear(wantsLanes)
        if (more) leaseAgain = true
        if ((wantsLanes || forFree) && !stopping && (await leases.lease())) leaseAgain = true
      } while ((lookAgain || leaseAgain) && !stopping)
    } catch (error) {
      deps.onError(error, 'look')
    } finally {
      looking = false
    }
  }

  /** Lanes that wait for their receivers and have room: somebody else may have been told of their news. */
  async function peek(): Promise<void> {
    const open = [...lanes.values()].filter(
      (lane) => !lane.releasing && !lane.reading && !hasWork(lane) && hasRoom(lane),
    )
    for (let start = 0; start < open.length; start += lanesPerPeek) {
      const chunk = open.slice(start, start + lanesPerPeek)
      const byId = new Map(chunk.map((lane) => [lane.leased.laneId, lane]))
      const known = chunk.map(({ leased, headSeq, asked }) => ({ laneId: leased.laneId, headSeq, asked }))
      for (const news of await store.peek(known)) {
        // Not of one that was leased anew meanwhile: this may be from the server before.
        const lane = byId.get(news.laneId)!
        if (!lane.gone && !lane.releasing) tell(lane, news)
      }
    }
  }

  function lookForRetries(): void {
    const before = clock.now() - retryLookMs
    for (const lane of lanes.values()) {
      // One that has been idle for so long is about to be given back, and is found again by its due time.
      const isLeaving = lane.idleSince !== null && lane.idleSince <= before
      if (lane.releasing || lane.retriesDue || isLeaving) continue
      lane.retriesDue = true
      flow.consider(lane)
    }
  }

  async function untilQuiet(msMax: number): Promise<void> {
    const until = clock.now() + msMax
    while ([...lanes.values()].some(isBusy) && clock.now() < until) await pause(clock, 20)
  }

  return {
    start() {
      void look({ forLanes: true })
      rounds.every(limits.pollMs, async () => {
        await look({ forLanes: true })
        await peek()
      })
      rounds.every(limits.leaseMs / 3, leases.renewAll)
      rounds.every(retryLookMs, lookForRetries)
      rounds.every(lingerMs / 4, leases.giveBackIdle)
    },
    hint(announcements = null) {
      if (stopping) return false
      if (announcements !== null && hearing.takeAnnouncements(announcements)) return true
      void look({ forLanes: false })
      return false
    },
    hintHeld: () => void peek().catch((error) => deps.onError(error, 'peek')),
    async stop() {
      stopping = true
      flow.stop()
      rounds.stop()
      // Leases are kept while we wait: a lane must not be taken from under a request that may still succeed.
      let letGo = () => {}
      const keep = () => {
        leases.renewAll().catch(() => {})
        letGo = clock.after(limits.leaseMs / 3, keep)
      }
      keep()
      await untilQuiet(limits.drainMsMax)
      letGo()
      flow.cutOff(lanes.values())
      const handOver = async () => {
        // A lease that is on its way would come after we have given everything back.
        while (looking && !over) await pause(clock, 5)
        await flow.settled()
        await leases.abandonAll()
      }
      // With the database away there is nobody to give anything back to: the leases run out by themselves.
      await within(
        clock,
        5_000,
        handOver().catch((error) => deps.onError(error, 'stop')),
      )
      over = true
    },
    get lanes() {
      return lanes.size
    },
    get inFlight() {
      return flow.inFlight
    },
  }
}
