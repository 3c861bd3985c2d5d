import { isDeepStrictEqual } from 'node:util'
import type { Database, Transaction } from '../../db/database.ts'
import type { Actor, AuditEntry } from '../../domain/audit.ts'
import type { EventType } from '../../domain/event-types.ts'
import { eventBody, type NewEvent, type ReportedEvent } from '../../domain/events.ts'
import { parseExactly } from '../../kernel/exact-json.ts'
import { Fault } from '../../kernel/faults.ts'
import { type Id, newId, type OrgId, type WebhookId } from '../../kernel/ids.ts'
import { recordAudits } from '../../store/audit.ts'
import type { Announcement, StoredEvent } from '../../store/delivery/announcements.ts'
import {
  findEventsById,
  insertEvents,
  insertReportedEvents,
  insertSample,
  insertWhereFree,
  type Publication,
  takeSequence,
  type Wait,
} from '../../store/delivery/events.ts'

/**
 * Writes the event and one delivery per subscribed webhook in the caller's transaction: they are there if, and only if,
 * the change that they report is. The organization's next publisher waits until this transaction ends, so publish last. Once it
 * has ended, and not before, the announcement may be given as a hint.
 */
export async function publish(
  tx: Transaction,
  event: NewEvent,
): Promise<{ id: Id<'evt'>; announcement: Announcement | null }> {
  const id = newId('evt')
  const announcement = await insertEvents(tx, event.orgId, [stored({ ...event, id })])
  return { id, announcement }
}

/** Events of one organization that another platform reports: all of them or none. It may name them itself. */
export type Report = { actor: Actor; events: readonly ReportedEvent[] }

/**
 * The same for what other platforms report, many reports at once. A name that is used twice is one event; where it says
 * something else the second time, that report is refused, and the others are not. What is new stands in the audit log.
 */
export async function publishReports(tx: Transaction, orgId: OrgId, reports: readonly Report[]): Promise<Outcome[]> {
  const { outcomes, events, entries } = weigh(orgId, reports, await knownEvents(tx, orgId, reports))
  // Sent one behind the other: whoever publishes next waits for as long as this takes.
  if (events.length > 0) await Promise.all([insertEvents(tx, orgId, events), recordAudits(tx, entries)])
  return outcomes
}

/** In one statement and a transaction of its own. Null, and nothing is written, where some of them may be known already. */
export async function publishNews(
  db: Database,
  orgId: OrgId,
  reports: readonly Report[],
  wait: Wait,
): Promise<{ outcomes: Outcome[]; announcements: Announcement[] | null } | null> {
  const news = weigh(orgId, reports, new Map())
  const { taken, announcement } = await insertReportedEvents(db, news, wait)
  if (taken.length > 0) return null
  return { outcomes: news.outcomes, announcements: announcement && [announcement] }
}

/**
 * The same for many organizations, in one statement and one transaction: for those in which nobody else publishes. Of the others
 * nothing is written, and nothing said.
 */
export async function publishWhereFree<R extends Report & { orgId: OrgId }>(
  db: Database,
  reports: readonly R[],
): Promise<{ outcomes: Map<R, Outcome>; announcements: Announcement[] | null }> {
  const news = Array.from(
    Map.groupBy(reports, ({ orgId }) => orgId),
    ([orgId, theirs]) => ({
      theirs,
      ...weigh(orgId, theirs, new Map()),
    }),
  )
  const { free, announcements } = await insertWhereFree(db, news)
  const written = news.filter(({ orgId }) => free.has(orgId))
  const outcomes = written.flatMap(({ theirs, outcomes }) => theirs.map((report, i) => [report, outcomes[i]!] as const))
  return { outcomes: new Map(outcomes), announcements }
}

/** The ids of a report's events, or why it was refused. */
export type Outcome = string[] | Fault

function weigh(orgId: OrgId, reports: readonly Report[], known: Known): Publication & { outcomes: Outcome[] } {
  const fresh: StoredEvent[] = []
  const entries: AuditEntry[] = []
  const outcomes = reports.map(({ actor, events }): Outcome => {
    const named = events.map((event) => ({ ...event, id: event.id ?? newId('evt') }))
    const news = newsOf(named, known)
    if (news instanceof Fault) return news
    for (const event of news) known.set(event.id, event)
    fresh.push(...news.map(stored))
    const [first] = news
    const details = { events: news.length }
    if (first !== undefined) entries.push({ orgId, action: 'event.reported', actor, targetId: first.id, details })
    return named.map(({ id }) => id)
  })
  return { orgId, events: fresh, named: namedBy(reports), entries, outcomes }
}

export async function publishReport(tx: Transaction, orgId: OrgId, report: Report): Promise<string[]> {
  const [outcome] = await publishReports(tx, orgId, [report])
  if (outcome instanceof Fault) throw outcome
  return outcome!
}

const namedBy = (reports: readonly Report[]): string[] =>
  reports.flatMap(({ events }) => events.flatMap(({ id }) => id ?? []))

type Named = { id: string; type: EventType; data: object }
type Known = Map<string, { type: EventType; data: unknown }>

async function knownEvents(tx: Transaction, orgId: OrgId, reports: readonly Report[]): Promise<Known> {
  const ids = namedBy(reports)
  if (ids.length === 0) return new Map()
  // Taking no number still takes the lock: from here on nobody else can be writing the same id.
  await takeSequence(tx, orgId, 0)
  const found = await findEventsById(tx, orgId, ids)
  return new Map(found.map(({ id, type, body }) => [id, { type, data: (parseExactly(body) as Named).data }]))
}

/** What a report has to say that is not known yet. */
function newsOf(events: readonly Named[], known: Known): Named[] | Fault {
  const news = new Map<string, Named>()
  for (const event of events) {
    const before = news.get(event.id) ?? known.get(event.id)
    if (before === undefined) news.set(event.id, event)
    else if (before.type !== event.type || !isDeepStrictEqual(before.data, event.data)) {
      return new Fault('conflict', { public: `There is an event ${event.id} already, and it says something else.` })
    }
  }
  return [...news.values()]
}

/** A sample for one webhook. It is marked in the signed body, so that no receiver takes it for news. */
export async function publishSample(
  tx: Transaction,
  webhook: { orgId: OrgId; webhookId: WebhookId },
  sample: { type: EventType; data: object },
): Promise<{ id: Id<'evt'> }> {
  const id = newId('evt')
  const seq = await takeSequence(tx, webhook.orgId, 1)
  const event = stored({ id, type: sample.type, data: { test: true, ...sample.data } })
  await insertSample(tx, webhook.orgId, seq, event, webhook.webhookId)
  return { id }
}

const stored = (event: { id: string; type: EventType; data: object }): StoredEvent => ({
  id: event.id,
  type: event.type,
  body: eventBody({ ...event, at: new Date() }),
})
