import type { OrgId } from '../kernel/ids.ts'
import { type SettledAttempt, settleAttempts } from '../store/attempts.ts'
import { type Beginning, beginAttempts, findLeftovers, type Leftover, type MayGo } from '../store/beginnings.ts'
import type { Database } from '../store/database.ts'
import { type DueDelivery, type ReadRequest, readDue } from '../store/due.ts'
import {
  type HeldLane,
  type LaneState,
  type LeasedLane,
  type LeaseRequest,
  leaseLanes,
  peekLanes,
  type ReleasedLane,
  releaseLanes,
  renewLanes,
} from '../store/lanes.ts'
import { type News, readNews, type Seen, type Woken, wakeLanes } from '../store/news.ts'

/** All that a dispatcher asks of the database. A port, so that the same dispatcher runs in a simulation. */
export type DispatchStore = {
  news(owner: string, seen: Seen): Promise<News>
  wake(): Promise<Woken>
  lease(request: LeaseRequest): Promise<LeasedLane[]>
  leftovers(lanes: readonly { laneId: number; orgId: OrgId }[]): Promise<Leftover[]>
  read(requests: readonly ReadRequest[]): Promise<DueDelivery[]>
  begin(beginnings: readonly Beginning[]): Promise<MayGo>
  settle(attempts: readonly SettledAttempt[]): Promise<number>
  renew(held: readonly HeldLane[], leaseMs: number): Promise<LaneState[]>
  peek(known: readonly LaneState[]): Promise<LaneState[]>
  release(held: readonly ReleasedLane[]): Promise<number[]>
}

const wakesAtOnce = 1_000

export const createDispatchStore = (db: Database): DispatchStore => ({
  news: (owner, seen) => readNews(db, owner, seen, wakesAtOnce),
  wake: () => wakeLanes(db, wakesAtOnce),
  lease: (request) => leaseLanes(db, request),
  leftovers: (lanes) => findLeftovers(db, lanes),
  read: (requests) => readDue(db, requests),
  begin: (beginnings) => beginAttempts(db, beginnings),
  settle: (attempts) => settleAttempts(db, attempts),
  renew: (held, leaseMs) => renewLanes(db, held, leaseMs),
  peek: (known) => peekLanes(db, known),
  release: (held) => releaseLanes(db, held),
})
