import { setTimeout as sleep } from 'node:timers/promises'
import { type Database, databaseNowMs } from '../db/database.ts'
import { deleteOldIdempotencyKeys } from '../http/idempotency.ts'
import type { OrgId } from '../lib/ids.ts'
import { deleteOldMails } from '../mail/queue-sql.ts'
import { correctLanes, correctRetries, eraseOldSecrets } from './lane-sql.ts'
import { stepRecovery } from './redelivery-sql.ts'
import {
  deleteEarlierUrls,
  deleteFinishedEvents,
  dropPartitions,
  ensurePartitions,
  listOldEvents,
  weekStartMs,
} from './retention-sql.ts'

const recoveryMs = 500
const hourMs = 3_600_000
const dayMs = 86_400_000

/** What a dispatcher does beside sending: partitions for attempts, retention, recoveries, corrections of wrong times, and old secrets. */
export function createMaintenance(deps: {
  db: Database
  retentionDays: number | null
  leaseMs: number
  now(): number
  hint(orgId: OrgId): void
  /** PostgreSQL's clock was ahead: this many lanes would have waited until the wrong time. */
  onClockSetBack(lanes: number): void
  onError(error: unknown, what: string): void
}) {
  const { db } = deps
  const stopping = new AbortController()
  const { signal } = stopping
  let loops: Promise<void>[] = []

  async function recover(): Promise<void> {
    while (!signal.aborted) {
      const orgId = await db.begin((tx) => stepRecovery(tx))
      if (orgId === null) return
      deps.hint(orgId)
    }
  }

  /** By whole weeks, events too: an event is not examined while its attempts are still kept. */
  async function applyRetention(): Promise<void> {
    await ensurePartitions(db, deps.now())
    if (deps.retentionDays === null) return
    // PostgreSQL's clock, which all nodes share: a node that is months ahead would delete everything.
    const olderThanMs = weekStartMs((await databaseNowMs(db)) - deps.retentionDays * dayMs)
    await dropPartitions(db, olderThanMs)
    await deleteEarlierUrls(db, olderThanMs)
    for (const { orgId, upToSeq } of await listOldEvents(db, olderThanMs)) {
      for (let afterSeq: number | null = 0; afterSeq !== null && !signal.aborted; ) {
        afterSeq = await deleteFinishedEvents(db, orgId, { afterSeq, upToSeq })
      }
    }
  }

  async function correctTimes(): Promise<void> {
    // Retries first: a lane that is released takes its time from them.
    const lanes = (await correctRetries(db)) + (await correctLanes(db, deps.leaseMs))
    if (lanes > 0) deps.onClockSetBack(lanes)
  }

  const run = (what: string, work: () => Promise<void>) => work().catch((error) => deps.onError(error, what))

  async function repeat(ms: number, work: () => Promise<void>): Promise<void> {
    while (!signal.aborted) {
      await work()
      await sleep(ms, undefined, { signal, ref: false }).catch(() => {})
    }
  }

  async function hourly(): Promise<void> {
    await run('idempotency keys', () => deleteOldIdempotencyKeys(db))
    await run('mails', () => deleteOldMails(db))
    await run('retention', applyRetention)
    await run('clock', correctTimes)
    await run('secrets', async () => void (await eraseOldSecrets(db)))
  }

  return {
    /** Resolves when there are partitions for this week's attempts; nothing is sent before. */
    async start(): Promise<void> {
      await ensurePartitions(db, deps.now())
      loops = [repeat(recoveryMs, () => run('recovery', recover)), repeat(hourMs, hourly)]
    },
    /** Call it when an attempt cannot be stored: its week may have no partition, because a clock was wrong when it began. */
    ensurePartitions: () => ensurePartitions(db, deps.now()),
    hourly,
    async stop(): Promise<void> {
      stopping.abort()
      await Promise.all(loops)
    },
  }
}
