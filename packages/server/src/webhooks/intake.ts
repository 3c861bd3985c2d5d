import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { type Database, isLockTimeout, isTransient, isUnavailable, wasRejected } from '../db/database.ts'
import type { Actor, AuditEntry } from '../domain/audit.ts'
import { eventBody, type IntakeEvent } from '../domain/events.ts'
import { parseExactly } from '../kernel/exact-json.ts'
import { Fault } from '../kernel/faults.ts'
import { newId, type OrgId } from '../kernel/ids.ts'
import { activeTraceparent, inSpan } from '../kernel/tracing.ts'
import { createTurns } from '../kernel/turns.ts'
import { findEventsById, type PublishedEvent, type StoredEvent } from '../store/delivery/events.ts'
import { createTransact, type PublishingTransaction } from '../store/publishing-transaction.ts'
import { type IntakeBatch, lockCounters, publishBatch } from './sql/publish.ts'

const batchMax = { events: 1_000, bytes: 1_024 * 1_024 }
/** While another session holds the organization's counter. In between, the connection is free for others. */
const lockedRetryMs = 100
const lockedMsMax = 3_000

/** Events of one or several organizations: all of them are accepted or none. */
type IntakeRequest = { actor: Actor; events: readonly IntakeEvent[] }

export type Intake = {
  /** Resolves with the events' ids once they are on disk. */
  accept(request: IntakeRequest): Promise<string[]>
  /** The same in a transaction of its own. `within` runs in it, and decides whether to publish. */
  acceptWithin<T>(
    request: IntakeRequest,
    within: (tx: PublishingTransaction, publish: () => Promise<string[]>) => Promise<T>,
  ): Promise<T>
}

type Content = { type: string; data: unknown }
type Event = PublishedEvent & Content & { orgId: OrgId; isNamed: boolean }
type Request = { actor: Actor; events: readonly Event[] }
type Waiting = Request & { resolve(): void; reject(error: unknown): void }
type Conflict = Fault | null

/**
 * Accepts events of other platforms. Each organization has one batch in progress; what arrives meanwhile becomes the next batch,
 * because one commit per event would wait for the disk each time. Organizations do not wait for each other.
 */
export function createIntake(deps: { db: Database; hint(orgIds: readonly OrgId[]): void }): Intake {
  const { db, hint } = deps
  const transact = createTransact(db, hint)
  /** For transactions of their own: many that wait for one counter would take all connections, and most of them give up. */
  const inTurn = createTurns<OrgId>((error) => isUnavailable(error) || isTransient(error))
  /** Organizations with a batch in progress, and the requests that wait for it to end. */
  const queues = new Map<OrgId, Waiting[]>()

  function enqueue(orgId: OrgId, waiting: Waiting): void {
    const queue = queues.get(orgId)
    if (queue !== undefined) return void queue.push(waiting)
    const started = [waiting]
    queues.set(orgId, started)
    // Requests that arrived in the same tick go into the first batch.
    setImmediate(() => void drain(orgId, started))
  }

  async function drain(orgId: OrgId, queue: Waiting[]): Promise<void> {
    while (queue.length > 0) {
      const batch = queue.splice(0, batchLength(queue))
      await write(orgId, batch).catch((error) => {
        // The counter stayed locked. Requests behind are refused too, or each batch would wait as long again.
        for (const { reject } of [...batch, ...queue.splice(0)]) reject(error)
      })
    }
    queues.delete(orgId)
  }

  /**
   * A batch that PostgreSQL rejects is halved until the request that causes it is alone. After a lost connection nothing is
   * written again, because it may be on disk.
   */
  async function write(orgId: OrgId, batch: readonly Waiting[]): Promise<void> {
    try {
      const conflicts = await retryWhileLocked(() => publishRequests(orgId, batch))
      batch.forEach(({ resolve, reject }, i) => void (conflicts[i] === null ? resolve() : reject(conflicts[i])))
    } catch (error) {
      if (isLockTimeout(error)) throw error
      if (batch.length > 1 && wasRejected(error)) {
        const middle = batch.length >> 1
        await write(orgId, batch.slice(0, middle))
        await write(orgId, batch.slice(middle))
      } else for (const { reject } of batch) reject(error)
    }
  }

  /** One statement where no id is taken. Returns for each request why it is refused, or null. */
  async function publishRequests(orgId: OrgId, requests: readonly Request[]): Promise<Conflict[]> {
    const { conflicts, ...batch } = batchOf(orgId, requests)
    const taken = await publishBatch(db, batch)
    if (taken.length > 0) return transact((tx) => publishInTransaction(tx, orgId, requests))
    if (batch.events.length > 0) hint([orgId])
    return conflicts
  }

  async function publishInTransaction(
    tx: PublishingTransaction,
    orgId: OrgId,
    requests: readonly Request[],
  ): Promise<Conflict[]> {
    let batch = batchOf(orgId, requests)
    const taken = await publishBatch(tx, batch)
    if (taken.length > 0) {
      // The counter is locked now, so no other session adds events with these ids.
      batch = batchOf(orgId, requests, await findEventsById(tx, orgId, taken))
      await publishBatch(tx, { ...batch, named: [] })
    }
    if (batch.events.length > 0) tx.hintAfterCommit(orgId)
    return batch.conflicts
  }

  async function publishForSeveral(
    tx: PublishingTransaction,
    actor: Actor,
    byOrganization: Map<OrgId, Event[]>,
  ): Promise<void> {
    await lockCounters(tx, [...byOrganization.keys()])
    for (const [orgId, events] of byOrganization) {
      const [conflict] = await publishInTransaction(tx, orgId, [{ actor, events }])
      if (conflict) throw conflict
    }
  }

  return {
    accept: async ({ actor, events: given }) =>
      inSpan('publish', { kind: 'producer', attributes: { 'keyhook.events': given.length } }, async () => {
        const events = eventsOf(given)
        const byOrganization = Map.groupBy(events, ({ orgId }) => orgId)
        if (byOrganization.size > 1) {
          await retryWhileLocked(() => transact((tx) => publishForSeveral(tx, actor, byOrganization)))
        } else {
          const { orgId } = events[0]!
          await new Promise<void>((resolve, reject) => enqueue(orgId, { actor, events, resolve, reject }))
        }
        return events.map(({ id }) => id)
      }),
    acceptWithin: async ({ actor, events: given }, within) =>
      inSpan('publish', { kind: 'producer', attributes: { 'keyhook.events': given.length } }, async () => {
        const events = eventsOf(given)
        const byOrganization = Map.groupBy(events, ({ orgId }) => orgId)
        const publish = async (tx: PublishingTransaction): Promise<string[]> => {
          await publishForSeveral(tx, actor, byOrganization)
          return events.map(({ id }) => id)
        }
        return inTurn([...byOrganization.keys()], () =>
          retryWhileLocked(() => transact((tx) => within(tx, () => publish(tx)))),
        )
      }),
  }
}

/** A batch has events of several requests, so each takes the trace of its own with it. */
function eventsOf(given: readonly IntakeEvent[]): Event[] {
  const traceparent = activeTraceparent()
  return given.map(({ orgId, id: name, type, data }) => {
    const id = name ?? newId('evt')
    const body = eventBody({ id, type, at: new Date(), data })
    return { orgId, id, isNamed: name !== null, type, data, body, traceparent }
  })
}

async function retryWhileLocked<T>(work: () => Promise<T>): Promise<T> {
  const giveUpAt = performance.now() + lockedMsMax
  for (;;) {
    try {
      return await work()
    } catch (error) {
      if (!isLockTimeout(error) || performance.now() > giveUpAt) throw error
    }
    await sleep(lockedRetryMs)
  }
}

/** How many requests fit into a batch, one at least. */
function batchLength(queue: readonly Request[]): number {
  let events = 0
  let bytes = 0
  const end = queue.findIndex((request, i) => {
    events += request.events.length
    for (const { body } of request.events) bytes += body.length
    return i > 0 && (events > batchMax.events || bytes > batchMax.bytes)
  })
  return end === -1 ? queue.length : end
}

/**
 * What is new in the requests, with one audit entry for each that adds something. An id that exists with the same content is the
 * same event; with other content, that request is refused as a whole.
 */
function batchOf(
  orgId: OrgId,
  requests: readonly Request[],
  existing: readonly StoredEvent[] = [],
): IntakeBatch & { conflicts: Conflict[] } {
  const known = new Map<string, Content>()
  for (const { id, type, body } of existing) known.set(id, { type, data: (parseExactly(body) as Content).data })
  const events: Event[] = []
  const entries: AuditEntry[] = []
  const conflicts = requests.map((request): Conflict => {
    const added = new Map<string, Event>()
    for (const event of request.events) {
      const before = added.get(event.id) ?? known.get(event.id)
      if (before === undefined) added.set(event.id, event)
      else if (before.type !== event.type || !isDeepStrictEqual(before.data, event.data)) {
        return new Fault('conflict', { public: `There is an event ${event.id} already, with other content.` })
      }
    }
    const [first] = added.keys()
    if (first === undefined) return null
    for (const event of added.values()) known.set(event.id, event)
    events.push(...added.values())
    const details = { events: added.size }
    entries.push({ orgId, action: 'event.reported', actor: request.actor, targetId: first, details })
    return null
  })
  const named = requests.flatMap((request) => request.events.filter((event) => event.isNamed).map(({ id }) => id))
  return { orgId, events, named, entries, conflicts }
}
