import { setTimeout as sleep } from 'node:timers/promises'
import type { Actor } from '../access/audit.ts'
import {
  createTransact,
  type Database,
  isLockTimeout,
  isTransient,
  isUnavailable,
  type PublishingTransaction,
  wasRejected,
} from '../db/database.ts'
import { writeOrHalve } from '../lib/batcher.ts'
import { Fault } from '../lib/faults.ts'
import type { OrgId } from '../lib/ids.ts'
import { createKeyedQueue } from '../lib/keyed-queue.ts'
import { inSpan } from '../lib/tracing.ts'
import { findEventsById } from './event-log-sql.ts'
import type { IntakeEvent } from './events.ts'
import {
  batchLength,
  batchMax,
  batchOf,
  batchOfNew,
  type Conflict,
  eventsOf,
  fits,
  hasNoNames,
  orgOf,
  orgsOf,
  type Request,
  sizeOf,
} from './intake-batch.ts'
import { lockMsMin, publishBatch, publishWhereFree } from './publish.ts'

/** What one organization adds to a statement with others. With more it gains nothing, and the others would wait for it. */
const shareMax = { events: 16, bytes: 64 * 1_024 }
/**
 * While one waits for the disk, the next one is written; but only for so many organizations. With a second statement for any, an
 * event cost PostgreSQL 1.4 times as much at 500 events/s.
 */
const sharedStatements = { max: 2, organizationsMin: 16 }
/** While another session holds an organization's counter. In between, the connection is free for others. */
const lockedRetryMs = 100
const lockedMsMax = 3_000
/** The longest wait in PostgreSQL, with a connection. */
const lockMsMax = 500

/** Events of one or several organizations: all of them are accepted or none. */
type IntakeRequest = { actor: Actor; events: readonly IntakeEvent[] }

export type Intake = ReturnType<typeof createIntake>

type Waiting = Request & { resolve(): void; reject(error: unknown): void }

/**
 * Accepts events of other platforms. There are two ways into the database:
 *
 * - Requests for one organization wait in its queue. At most two statements write them, each for many organizations, because a
 *   commit for each accepted 0.37 as many (in turns). Such a statement waits for no lock.
 * - Written on their own, for one organization or for those of one request, are: what such a statement left out, what is too large
 *   for it, ids that the caller chose, and requests for several organizations. There the counters may be waited for.
 *
 * An organization has at most one of its queued requests' batches in progress, so they are written in order of arrival. That is why
 * this is no batcher of `lib`: what may go into a statement depends on the organizations that others are writing for.
 */
export function createIntake(deps: { db: Database; hint(orgIds: readonly OrgId[]): void }) {
  const { db, hint } = deps
  const transact = createTransact(db, hint)
  /** For requests outside of the queues: many that wait for one counter would take all connections. */
  const alone = createKeyedQueue<OrgId>((error) => isUnavailable(error) || isTransient(error))
  const queues = new Map<OrgId, Waiting[]>()
  /** How many writes are in progress for an organization. Its queue waits for them, because it would find the counter locked. */
  const writes = new Map<OrgId, number>()
  /** Statements for many organizations. */
  let running = 0
  /** Whether a publisher waits longer than others, with its connection. It is one at most, or nothing would be left for the others. */
  let hasPatientOne = false
  let isScheduled = false

  function enqueue(orgId: OrgId, waiting: Waiting): void {
    const queue = queues.get(orgId)
    if (queue === undefined) queues.set(orgId, [waiting])
    else queue.push(waiting)
    schedule()
  }

  /** Requests that arrive in the same tick go into the same statement. */
  function schedule(): void {
    if (isScheduled) return
    isScheduled = true
    setImmediate(() => {
      isScheduled = false
      startWrites()
    })
  }

  function startWrites(): void {
    const batch: Waiting[] = []
    let room = batchMax
    const { max, organizationsMin } = sharedStatements
    const mayShare = running === 0 || (running < max && queues.size >= organizationsMin)
    for (const [orgId, queue] of queues) {
      if (writes.has(orgId)) continue
      const size = sizeOf(queue)
      const isShared = fits(size, shareMax) && queue.every(hasNoNames)
      if (isShared && (!mayShare || !fits(size, room))) continue
      const requests = isShared ? queue : queue.splice(0, batchLength(queue))
      if (isShared || queue.length === 0) queues.delete(orgId)
      begin([orgId])
      if (isShared) {
        batch.push(...requests)
        room = { events: room.events - size.events, bytes: room.bytes - size.bytes }
      } else void writeAlone(orgId, requests)
    }
    if (batch.length > 0) void writeShared(batch)
  }

  const begin = (orgIds: Iterable<OrgId>): void => {
    for (const orgId of orgIds) writes.set(orgId, (writes.get(orgId) ?? 0) + 1)
  }

  function end(orgIds: Iterable<OrgId>): void {
    for (const orgId of orgIds) {
      const others = writes.get(orgId)! - 1
      if (others > 0) writes.set(orgId, others)
      else writes.delete(orgId)
    }
    if (queues.size > 0) schedule()
  }

  /** What is left out or rejected is written by organization. After a lost connection nothing is: it may be on disk. */
  async function writeShared(batch: readonly Waiting[]): Promise<void> {
    const byOrganization = Map.groupBy(batch, orgOf)
    running += 1
    try {
      const leftOut = await publishWhereFree(db, batchOfNew(batch))
      const written = [...byOrganization.keys()].filter((orgId) => !leftOut.has(orgId))
      for (const orgId of leftOut) void writeAlone(orgId, byOrganization.get(orgId)!)
      for (const orgId of written) for (const { resolve } of byOrganization.get(orgId)!) resolve()
      if (written.length > 0) hint(written)
      end(written)
    } catch (error) {
      if (wasRejected(error)) for (const [orgId, requests] of byOrganization) void writeAlone(orgId, requests)
      else {
        for (const { reject } of batch) reject(error)
        end(byOrganization.keys())
      }
    } finally {
      running -= 1
    }
  }

  /** Requests of one organization. Those behind them are refused with them, or each batch would wait for the counter as long. */
  async function writeAlone(orgId: OrgId, batch: readonly Waiting[]): Promise<void> {
    await writeOrHalve(batch, { write: writeRequests, isRejected: wasRejected, onFailed: rejectAll }).catch((error) => {
      for (const { reject } of [...batch, ...(queues.get(orgId) ?? [])]) reject(error)
      queues.delete(orgId)
    })
    end([orgId])
  }

  async function writeRequests(batch: readonly Waiting[]): Promise<void> {
    const conflicts = await retryWhileLocked([orgOf(batch[0]!)], (lockMs) => publishRequests(batch, lockMs))
    batch.forEach(({ resolve, reject }, i) => void (conflicts[i] === null ? resolve() : reject(conflicts[i])))
  }

  /** After a lost connection nothing is written again, because it may be on disk. */
  function rejectAll(batch: readonly Waiting[], error: unknown): void {
    if (error instanceof Fault) throw error
    for (const { reject } of batch) reject(error)
  }

  /** One statement where no id is taken. Returns for each request why it is refused, or null. */
  async function publishRequests(requests: readonly Request[], lockMs: number): Promise<Conflict[]> {
    const { conflicts, ...batch } = batchOf(requests)
    if (batch.events.length === 0) return conflicts
    const taken = await publishBatch(db, batch, lockMs)
    if (taken.length > 0) return transact((tx) => publishInTransaction(tx, requests, lockMs))
    hint([...new Set(batch.events.map(({ orgId }) => orgId))])
    return conflicts
  }

  async function publishInTransaction(
    tx: PublishingTransaction,
    requests: readonly Request[],
    lockMs: number,
  ): Promise<Conflict[]> {
    let batch = batchOf(requests)
    const taken = await publishBatch(tx, batch, lockMs)
    if (taken.length > 0) {
      // The counters are locked now, so no other session adds events with these ids.
      batch = batchOf(requests, await findEventsById(tx, taken))
      await publishBatch(tx, { ...batch, events: batch.events.map((event) => ({ ...event, isNamed: false })) })
    }
    for (const { orgId } of batch.events) tx.hintAfterCommit(orgId)
    return batch.conflicts
  }

  /**
   * At different times, so that those that failed together do not meet again. One publisher waits twice as long each time: a counter
   * that others hold for most of the time is hardly ever free within 20 ms. For several organizations it would keep some of them locked.
   * No `retryUntilAccepted`: here the waits in PostgreSQL grow, and not the pauses.
   */
  async function retryWhileLocked<T>(orgIds: readonly OrgId[], work: (lockMs: number) => Promise<T>): Promise<T> {
    const giveUpAt = performance.now() + lockedMsMax
    for (let tries = 0; ; tries++) {
      const isPatient = tries > 0 && orgIds.length === 1 && !hasPatientOne
      if (isPatient) hasPatientOne = true
      try {
        return await work(isPatient ? Math.min(lockMsMin * 2 ** tries, lockMsMax) : lockMsMin)
      } catch (error) {
        if (!isLockTimeout(error)) throw error
        if (performance.now() > giveUpAt) throw countersHeld(orgIds, error)
      } finally {
        if (isPatient) hasPatientOne = false
      }
      await sleep(lockedRetryMs * (0.5 + Math.random()))
    }
  }

  /** Between two tries the organizations are free for others. */
  const writeInTurn = async <T>(orgIds: readonly OrgId[], work: (lockMs: number) => Promise<T>): Promise<T> =>
    retryWhileLocked(orgIds, (lockMs) =>
      alone.run(orgIds, async () => {
        begin(orgIds)
        try {
          return await work(lockMs)
        } finally {
          end(orgIds)
        }
      }),
    )

  const traced = <T>({ actor, events: given }: IntakeRequest, work: (request: Request) => Promise<T>): Promise<T> =>
    inSpan('publish', { kind: 'producer', attributes: { 'keyhook.events': given.length } }, async () =>
      work({ actor, events: eventsOf(given) }),
    )

  return {
    /** Resolves with the events' ids once they are on disk. */
    accept: (given: IntakeRequest): Promise<string[]> =>
      traced(given, async (request) => {
        const orgIds = orgsOf(request)
        if (orgIds.length > 1) {
          const [conflict] = await writeInTurn(orgIds, (lockMs) => publishRequests([request], lockMs))
          if (conflict) throw conflict
        } else {
          await new Promise<void>((resolve, reject) => enqueue(orgIds[0]!, { ...request, resolve, reject }))
        }
        return request.events.map(({ id }) => id)
      }),
    /** The same in a transaction of its own. `within` runs in it, and decides whether to publish. */
    acceptWithin: <T>(
      given: IntakeRequest,
      within: (tx: PublishingTransaction, publish: () => Promise<string[]>) => Promise<T>,
    ): Promise<T> =>
      traced(given, async (request) => {
        const publish = async (tx: PublishingTransaction, lockMs: number): Promise<string[]> => {
          const [conflict] = await publishInTransaction(tx, [request], lockMs)
          if (conflict) throw conflict
          return request.events.map(({ id }) => id)
        }
        return writeInTurn(orgsOf(request), (lockMs) => transact((tx) => within(tx, () => publish(tx, lockMs))))
      }),
  }
}

const countersHeld = (orgIds: readonly OrgId[], cause: unknown): Fault =>
  new Fault('service.unavailable', {
    public:
      'Other events of the organization are being published. Nothing was published by this request; try again shortly.',
    internal: `for ${lockedMsMax} ms, other sessions held an event counter of ${orgIds.slice(0, 10).join(', ')}${orgIds.length > 10 ? ` or ${orgIds.length - 10} more` : ''}`,
    headers: { 'retry-after': '2' },
    cause,
  })
