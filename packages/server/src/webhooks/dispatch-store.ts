import type { OrgId } from '../kernel/ids.ts'
import { type SettledAttempt, settleFinished, settleForRetry } from '../store/attempts.ts'
import type { Database } from '../store/database.ts'
import {
  type HeldLane,
  type LeasedLane,
  type LeaseRequest,
  leaseLanes,
  peekLanes,
  type RenewedLane,
  releaseLanes,
  renewLanes,
} from '../store/lanes.ts'
import { type News, readNews, type Seen, type Woken, wakeLanes } from '../store/news.ts'
import {
  type BegunAttempt,
  beginAttempts,
  type DueDelivery,
  findLeftovers,
  type Leftover,
  type ReadRequest,
  readDue,
} from '../store/unsettled.ts'

/** All that a dispatcher asks of the database. A port, so that the same dispatcher runs in a simulation. */
export type DispatchStore = {
  news(owner: string, seen: Seen): Promise<News>
  wake(): Promise<Woken>
  lease(request: LeaseRequest): Promise<LeasedLane[]>
  leftovers(lanes: readonly { laneId: number; orgId: OrgId; token: number }[]): Promise<Leftover[]>
  read(requests: readonly ReadRequest[]): Promise<DueDelivery[]>
  begin(attempts: readonly BegunAttempt[]): Promise<Set<number>>
  settle(attempts: readonly SettledAttempt[]): Promise<number>
  renew(held: readonly HeldLane[], leaseMs: number): Promise<RenewedLane[]>
  peek(
    held: readonly (HeldLane & { headSeq: number; asked: number })[],
  ): Promise<{ laneId: number; headSeq: number; asked: number }[]>
  release(held: readonly (HeldLane & { asked: number; abandon: boolean })[]): Promise<number[]>
}

const wakesAtOnce = 1_000

export const createDispatchStore = (db: Database): DispatchStore => ({
  news: (owner, seen) => readNews(db, owner, seen, wakesAtOnce),
  wake: () => wakeLanes(db, wakesAtOnce),
  lease: (request) => leaseLanes(db, request),
  leftovers: (lanes) => findLeftovers(db, lanes),
  read: (requests) => readDue(db, requests),
  begin: (attempts) => beginAttempts(db, attempts),
  async settle(attempts) {
    const finished = attempts.filter((one) => one.retryMs === null)
    const waiting = attempts.filter((one) => one.retryMs !== null)
    const counts = await Promise.all([
      finished.length > 0 ? settleFinished(db, finished) : 0,
      waiting.length > 0 ? settleForRetry(db, waiting) : 0,
    ])
    return counts[0] + counts[1]
  },
  renew: (held, leaseMs) => renewLanes(db, held, leaseMs),
  peek: (held) => peekLanes(db, held),
  release: (held) => releaseLanes(db, held),
})
