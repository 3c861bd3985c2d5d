import type { RetrySchedule } from '../domain/retry-schedule.ts'
import type { LeasedLane } from '../store/lanes.ts'
import { type Clock, pause, within } from './clock.ts'
import type { DispatchStore } from './dispatch-store.ts'
import { createFlow, type FlowObserver } from './flow.ts'
import { createGroup } from './group.ts'
import { createHearing } from './hearing.ts'
import { hasRoom, hasWork, isBusy, isIdle, type Lane, type LaneSender, openLane } from './lane.ts'
import { createPersist } from './persist.ts'
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
  /** There may be something to do. Only ever a hint: everything is also found by looking now and then. */
  hint(): void
  /** Another dispatcher was told of news for lanes that it does not hold. */
  hintHeld(): void
  /** Starts nothing more, waits for what is in flight up to the bound, then ends it and gives every lane back. */
  stop(): Promise<void>
  readonly lanes: number
  readonly inFlight: number
}

const lanesPerLease = 500
/** Lanes of organizations that have none here, taken although there is no room. */
const strangersPerLease = 32
/** Few: a statement that waits for one lane that is being written to holds up all those that it has already locked. */
const lanesPerRenewal = 16
const groupMax = 256
/** Lanes with something in flight look for retries that have come due at least this often. */
const retryLookMs = 1_000
/** How long an idle lane is kept: taking and giving back cost a statement each, and a busy webhook is idle for moments. */
const lingerMs = 1_000

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
  isDataRefused(error: unknown): boolean
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
  let writeDue = false
  /** The last look left lanes to others for want of room. */
  let full = false

  const rounds = createRounds({ clock, onError: (error) => deps.onError(error, 'round') })
  const persist = createPersist({
    clock,
    isUnavailable: deps.isUnavailable,
    onRetry: deps.onError,
    isOver: () => over,
  })
  const releases = createGroup<Lane>({ clock, sizeMax: 500, atOnceMax: 1, run: release })
  const flow = createFlow({
    store,
    clock,
    random: deps.random,
    persist,
    schedule: deps.schedule,
    inFlightMax: limits.inFlightMax,
    groupMax,
    observe: deps.observe,
    onIdle(lane) {
      if (lane.leased.webhook === null) giveBack(lane)
      else lane.idleSince ??= clock.now()
    },
    onLost: drop,
    mend: deps.mend,
    isDataRefused: deps.isDataRefused,
  })

  const hearing = createHearing({
    store,
    owner: deps.owner,
    clock,
    lanes,
    tell,
    tellHolders: deps.tellHolders,
    onWriteDue() {
      writeDue = true
      void look({ forLanes: false })
    },
  })

  function giveBack(lane: Lane): void {
    if (stopping || lane.releasing) return
    lane.releasing = true
    releases.add(lane)
  }

  /** Lanes that have had nothing to do for a while go back to whoever finds them due next. */
  function giveBackIdle(): void {
    const before = clock.now() - lingerMs
    for (const lane of lanes.values()) {
      if (lane.idleSince === null || lane.idleSince > before) continue
      if (isIdle(lane)) giveBack(lane)
      else lane.idleSince = null
    }
  }

  function drop(lane: Lane): void {
    lane.gone = true
    flow.forget(lane)
    if (lanes.get(lane.leased.laneId) === lane) lanes.delete(lane.leased.laneId)
  }

  const held = ({ leased, asked, begunNo }: Lane) => ({ laneId: leased.laneId, token: leased.token, asked, begunNo })

  async function release(idle: Lane[]): Promise<void> {
    const wanted = idle.filter((lane) => !lane.gone)
    if (wanted.length === 0) return
    const released = new Set(
      await persist('release', () => store.release(wanted.map((lane) => ({ ...held(lane), abandon: false })))),
    )
    for (const lane of wanted) if (released.has(lane.leased.laneId)) drop(lane)
    // The others have news, or are lost: the renewal says which.
    const kept = wanted.filter((lane) => !lane.gone)
    for (const lane of kept) lane.releasing = false
    await renew(kept)
    if (full) void look({ forLanes: true })
  }

  async function renew(mine: readonly Lane[]): Promise<void> {
    for (let start = 0; start < mine.length; start += lanesPerRenewal) {
      const chunk = mine.slice(start, start + lanesPerRenewal).filter((lane) => !lane.gone)
      if (chunk.length === 0) continue
      const renewed = await persist('renew', () => store.renew(chunk.map(held), limits.leaseMs))
      const byId = new Map(renewed.map((one) => [one.laneId, one]))
      for (const lane of chunk) {
        const now = byId.get(lane.leased.laneId)
        // One that is being given back is seen to there.
        if (lane.releasing) continue
        if (now === undefined) drop(lane)
        else tell(lane, now)
      }
    }
  }

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
        const inWriting = wantsLanes || writeDue
        leaseAgain = false
        writeDue = false
        const { forFree, more } = await hearing.hear(inWriting)
        if (more) leaseAgain = true
        if (wantsLanes || forFree) await lease()
      } while ((lookAgain || leaseAgain) && !stopping)
    } catch (error) {
      deps.onError(error, 'look')
    } finally {
      looking = false
    }
  }

  async function lease(): Promise<void> {
    // No more than could be sent from right now: what one process cannot get to, another can. But one lane of every
    // organization, or one whose receivers hang would keep the others from ever getting a turn here.
    const room = Math.min(limits.inFlightMax - flow.inFlight, groupMax * 2 - flow.waiting, lanesPerLease)
    full = room <= 0
    const lanesMax = Math.min(full ? strangersPerLease : room, limits.lanesMax - lanes.size)
    if (stopping || lanesMax <= 0) return
    const exceptOrgs = full ? [...new Set(Array.from(lanes.values(), (lane) => lane.leased.orgId))] : []
    const leased = await store.lease({ owner: deps.owner, lanesMax, leaseMs: limits.leaseMs, exceptOrgs })
    // Before any of them is opened: what a lane begins next takes the place of what is left in it.
    const taken = leased.filter((one) => one.takenOver)
    const left = taken.length === 0 ? [] : await persist('leftovers', () => store.leftovers(taken))
    const opened = leased.flatMap((one): Lane[] => {
      // A lease that ran out under us comes back with a new token: the old lane is done for.
      const old = lanes.get(one.laneId)
      if (old !== undefined) drop(old)
      const sender = one.webhook === null ? nobody : deps.open(one)
      if (sender === null) return []
      const lane = openLane(one, sender, limits.laneWidthMax)
      lanes.set(one.laneId, lane)
      return [lane]
    })
    for (const one of left) {
      const lane = lanes.get(one.laneId)
      if (lane !== undefined) flow.interruptLeftover(lane, one)
    }
    for (const lane of opened) flow.consider(lane)
    if (leased.length === lanesMax) leaseAgain = true
  }

  /** Lanes that wait for their receivers and have room: somebody else may have been told of their news. */
  async function peek(): Promise<void> {
    const open = [...lanes.values()].filter(
      (lane) => !lane.releasing && !lane.reading && !hasWork(lane) && hasRoom(lane),
    )
    for (let start = 0; start < open.length; start += lanesPerLease) {
      const chunk = open.slice(start, start + lanesPerLease)
      for (const news of await store.peek(chunk.map((lane) => ({ ...held(lane), headSeq: lane.headSeq })))) {
        const lane = lanes.get(news.laneId)
        if (lane !== undefined && !lane.releasing) tell(lane, news)
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
    while ([...lanes.values()].some(isBusy) && clock.now() < until) {
      await pause(clock, 20)
    }
  }

  return {
    start() {
      void look({ forLanes: true })
      rounds.every(limits.pollMs, async () => {
        await look({ forLanes: true })
        await peek()
      })
      rounds.every(limits.leaseMs / 3, () => renew([...lanes.values()].filter((lane) => !lane.releasing)))
      rounds.every(retryLookMs, lookForRetries)
      rounds.every(lingerMs / 4, giveBackIdle)
    },
    hint: () => void look({ forLanes: false }),
    hintHeld: () => void peek().catch((error) => deps.onError(error, 'peek')),
    async stop() {
      stopping = true
      flow.stop()
      rounds.stop()
      // Leases are kept while we wait: a lane must not be taken from under a request that may still succeed.
      let letGo = () => {}
      const keep = () => {
        renew([...lanes.values()].filter((lane) => !lane.releasing)).catch(() => {})
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
        await releases.settled()
        const rest = [...lanes.values()]
        if (rest.length > 0) await store.release(rest.map((lane) => ({ ...held(lane), abandon: true })))
        lanes.clear()
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

/** The lane of a deleted webhook: it is leased once more only to settle what was left, and sends nothing. */
const nobody: LaneSender = { width: { now: 0, bestUs: 0 }, headers: () => [], send() {}, interrupt() {} }
