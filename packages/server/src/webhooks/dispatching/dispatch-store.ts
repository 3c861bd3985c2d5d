import { type Database, isLockTimeout } from '../../db/database.ts'
import type { OrgId } from '../../kernel/ids.ts'
import { type SettledAttempt, settleAttempts } from '../../store/delivery/attempts.ts'
import {
  type Beginning,
  beginAttempts,
  findLeftovers,
  type Leftover,
  type MayGo,
} from '../../store/delivery/beginnings.ts'
import { type DueDelivery, type ReadRequest, readDue } from '../../store/delivery/due.ts'
import type { WhenLocked } from '../../store/delivery/lane-locks.ts'
import {
  type HeldLane,
  isHeld,
  type LaneState,
  type LeasedLane,
  type LeaseRequest,
  leaseLanes,
  peekLanes,
  type ReleasedLane,
  releaseLanes,
  renewLanes,
} from '../../store/delivery/lanes.ts'
import { type News, readNews, type Seen, type Woken, wakeLanes } from '../../store/delivery/news.ts'

/** All that a dispatcher asks of the database. A port, so that the same dispatcher runs in a simulation. */
export type DispatchStore = {
  news(owner: string, seen: Seen): Promise<News>
  wake(): Promise<Woken>
  lease(request: LeaseRequest): Promise<LeasedLane[]>
  leftovers(lanes: readonly { laneId: number; orgId: OrgId }[]): Promise<Leftover[]>
  read(requests: readonly ReadRequest[]): Promise<DueDelivery[]>
  begin(beginnings: readonly Beginning[]): Promise<MayGo>
  settle(attempts: readonly SettledAttempt[]): Promise<number>
  isHeld(held: HeldLane): Promise<boolean>
  renew(held: readonly HeldLane[], leaseMs: number): Promise<LaneState[]>
  peek(known: readonly LaneState[]): Promise<LaneState[]>
  release(held: readonly ReleasedLane[]): Promise<number[]>
}

const wakesAtOnce = 1_000
/** For so long after a lane was found locked nobody waits for one: each of many statements would wait as long for the same. */
const passOverMs = 5_000

export function createDispatchStore(db: Database, leaseMs: number): DispatchStore {
  let passOverUntilMs = 0
  const whenLocked = (): WhenLocked => (performance.now() < passOverUntilMs ? 'pass_over' : 'wait')
  const foundLocked = () => {
    passOverUntilMs = performance.now() + passOverMs
  }

  /** Waits for lanes that are locked, and where that takes long does it for the others. */
  async function sparing<T>(say: (whenLocked: WhenLocked) => Promise<T>): Promise<T> {
    try {
      return await say(whenLocked())
    } catch (error) {
      if (!isLockTimeout(error)) throw error
      foundLocked()
      return say('pass_over')
    }
  }

  return {
    news: (owner, seen) => readNews(db, owner, seen, wakesAtOnce),
    wake: () => sparing((whenLocked) => wakeLanes(db, wakesAtOnce, whenLocked)),
    lease: (request) => leaseLanes(db, request),
    leftovers: (lanes) => findLeftovers(db, lanes),
    read: (requests) => readDue(db, requests),
    async begin(beginnings) {
      const mayGo = await beginAttempts(db, beginnings, leaseMs, whenLocked())
      for (const outcome of mayGo.values()) if (outcome === 'locked') foundLocked()
      return mayGo
    },
    settle: (attempts) => settleAttempts(db, attempts),
    isHeld: (held) => isHeld(db, held),
    renew: (held, leaseMs) => sparing((whenLocked) => renewLanes(db, held, leaseMs, whenLocked)),
    peek: (known) => peekLanes(db, known),
    release: (held) => sparing((whenLocked) => releaseLanes(db, held, whenLocked)),
  }
}
