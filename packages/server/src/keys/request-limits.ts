import type { Database } from '../db/database.ts'
import { Fault } from '../lib/faults.ts'
import type { KeyId, OrgId } from '../lib/ids.ts'
import { addRequestCounts, changedRequestLimits, deleteOldRequestCounts } from './request-limits-sql.ts'

/** Requests in a minute; null: no limit. */
export type RequestLimit = { perKey: number | null; perOrganization: number | null }

export type RequestLimits = {
  /** Counts a request of the key, in memory. Throws if the key or its organization has used up its minute. */
  count(orgId: OrgId, keyId: KeyId): void
  close(): Promise<void>
}

/** `others`: what the other processes have counted in this minute, as far as this one knows. `sent`: how much of `own` they can know. */
type Counter = { own: number; sent: number; others: number }

const minuteMs = 60_000
const mergeMs = 1_000
/** Of keys, and of organizations. More than these are not limited in that minute: memory has a bound, and service goes on. */
const countersMax = 50_000
const statementMax = 2_000

/**
 * A limit counts from one full minute of PostgreSQL's clock to the next. Each process admits what it knows to be within the limit and
 * merges its counts every second; without PostgreSQL it goes on with its own.
 */
export function createRequestLimits(deps: {
  db: Database
  limit: RequestLimit
  onAway: (error: unknown) => void
}): RequestLimits {
  const { db } = deps
  /** Of organizations that do not have the limit of the settings. */
  const ofOrganizations = new Map<OrgId, RequestLimit>()
  const isOffBySettings = deps.limit.perKey === null && deps.limit.perOrganization === null
  let keys = new Map<string, Counter>()
  let organizations = new Map<string, Counter>()
  let minute = 0
  let minuteEndMs = 0
  let cleaned = 0
  /** How far PostgreSQL's clock is ahead of this one. */
  let aheadMs = 0
  let readUntil = new Date(0)
  let isAway = false
  let merging: Promise<void> | null = null

  function beginMinute(nowMs: number): void {
    minute = Math.floor((nowMs + aheadMs) / minuteMs)
    minuteEndMs = (minute + 1) * minuteMs - aheadMs
    keys = new Map()
    organizations = new Map()
  }

  async function merge(): Promise<void> {
    const changed = await changedRequestLimits(db, readUntil)
    aheadMs = changed.nowMs - Date.now()
    readUntil = changed.until
    for (const { orgId, ...own } of changed.limits) {
      if (own.perKey === null && own.perOrganization === null) ofOrganizations.delete(orgId)
      else ofOrganizations.set(orgId, own)
    }
    const passed = Math.floor((Date.now() + aheadMs) / minuteMs) - minute
    // Not one minute back: at the turn of a minute the clocks differ by the time of the statement.
    if (passed !== 0 && passed !== -1) beginMinute(Date.now())
    const merged = minute
    const unsent = [...unsentOf(keys), ...unsentOf(organizations)]
    for (let start = 0; start < unsent.length; start += statementMax) {
      await mergeSome(merged, unsent.slice(start, start + statementMax))
    }
    if (cleaned === merged) return
    await deleteOldRequestCounts(db, merged - 1)
    cleaned = merged
  }

  async function mergeSome(merged: number, unsent: readonly [string, Counter][]): Promise<void> {
    const added = unsent.map(([subject, { own, sent }]) => ({ subject, count: own - sent }))
    const totals = await addRequestCounts(db, merged, added)
    unsent.forEach(([subject, counter], place) => {
      counter.sent += added[place]!.count
      // Less than was sent: a failover has emptied the table.
      counter.others = Math.max(0, totals.get(subject)! - counter.sent)
    })
  }

  const timer = setInterval(() => {
    merging ??= merge()
      .then(
        () => {
          isAway = false
        },
        (error) => {
          if (!isAway) deps.onAway(error)
          isAway = true
        },
      )
      .finally(() => {
        merging = null
      })
  }, mergeMs)
  timer.unref()

  return {
    count(orgId, keyId) {
      if (isOffBySettings && ofOrganizations.size === 0) return
      const own = ofOrganizations.size === 0 ? undefined : ofOrganizations.get(orgId)
      const perKey = own?.perKey ?? deps.limit.perKey
      const perOrganization = own?.perOrganization ?? deps.limit.perOrganization
      if (perKey === null && perOrganization === null) return
      const nowMs = Date.now()
      if (nowMs >= minuteEndMs) beginMinute(nowMs)
      const ofKey = perKey === null ? null : counterOf(keys, keyId)
      const ofOrganization = perOrganization === null ? null : counterOf(organizations, orgId)
      if (ofKey !== null && ofKey.own + ofKey.others >= perKey!) throw tooMany(ofKeyText, perKey!, minuteEndMs - nowMs)
      if (ofOrganization !== null && ofOrganization.own + ofOrganization.others >= perOrganization!) {
        throw tooMany(ofOrganizationText, perOrganization!, minuteEndMs - nowMs)
      }
      if (ofKey !== null) ofKey.own += 1
      if (ofOrganization !== null) ofOrganization.own += 1
    },
    async close() {
      clearInterval(timer)
      await merging
    },
  }
}

function counterOf(counters: Map<string, Counter>, subject: string): Counter | null {
  const found = counters.get(subject)
  if (found !== undefined) return found
  if (counters.size >= countersMax) return null
  const counter = { own: 0, sent: 0, others: 0 }
  counters.set(subject, counter)
  return counter
}

const unsentOf = (counters: Map<string, Counter>): [string, Counter][] =>
  [...counters].filter(([, { own, sent }]) => own > sent)

const ofKeyText = 'This API key has sent'
const ofOrganizationText = 'The API keys of this organization have together sent'

function tooMany(who: string, max: number, waitMs: number): Fault {
  const seconds = Math.max(1, Math.ceil(waitMs / 1_000))
  return new Fault('request.rate_limited', {
    public: `${who} ${max} requests in this minute, the most that are allowed. Try again in ${seconds} seconds.`,
    headers: { 'retry-after': String(seconds) },
  })
}
