import type { PublishingTransaction, Transact, Transaction } from '../db/database.ts'
import type { OrgId } from '../lib/ids.ts'
import { notifyOwners } from '../mail/notices.ts'
import { announceExpired, announceExpiring, type NamedKey } from './events.ts'
import { type NamedRow, namedOf } from './sql.ts'

const everyMs = 60_000

export type KeyExpiry = {
  /** Ends every key whose time has come, and announces the ends that are near. */
  run(): Promise<void>
  close(): Promise<void>
}

/** Every node of the API does it. Rows are locked, so one of them announces an end, in the transaction that notes it. */
export function createKeyExpiry(deps: { transact: Transact; onError: (error: unknown) => void }): KeyExpiry {
  const closing = new AbortController()

  /** One organization in a transaction: publishing holds its event counter. */
  async function repeat(work: (tx: PublishingTransaction) => Promise<number>): Promise<void> {
    while (!closing.signal.aborted && (await deps.transact(work)) > 0) {}
  }

  async function run(): Promise<void> {
    await repeat(async (tx) => {
      const { orgId, keys } = await markExpired(tx)
      if (orgId !== null) await announceExpired(tx, orgId, keys)
      return keys.length
    })
    await repeat(async (tx) => {
      const { orgId, keys } = await takeNotices(tx)
      if (orgId === null) return 0
      const notices = keys.map((key) => ({ kind: 'key.expiring' as const, ...key }))
      await notifyOwners(tx, orgId, notices)
      await announceExpiring(tx, orgId, keys)
      return keys.length
    })
  }

  let running: Promise<void> = Promise.resolve()
  const timer = setInterval(() => {
    running = running.then(run).catch(deps.onError)
  }, everyMs)
  timer.unref()

  return {
    run,
    async close() {
      clearInterval(timer)
      closing.abort()
      await running
    },
  }
}

type ExpiringKey = NamedKey & { expiresAt: Date; daysLeft: number }

/** Keys of one organization; none if no key is due, or another node has them. */
type Due<Key> = { orgId: OrgId | null; keys: Key[] }
type DueRow = NamedRow & { org_id: OrgId; expires_at: Date; days_left: number }

/** Expired keys are revoked at their end. Authentication compares the end itself, so nothing waits for this. */
async function markExpired(tx: Transaction): Promise<Due<NamedKey>> {
  const rows = await tx<DueRow[]>`
    with first as (
      select org_id from keyhook.api_keys where revoked_at is null and expires_at < now()
      order by expires_at limit 1 for no key update skip locked
    ), due as (
      select k.org_id, k.id from keyhook.api_keys k join first using (org_id)
      where k.revoked_at is null and k.expires_at < now() limit 1000 for no key update of k skip locked
    )
    update keyhook.api_keys k set revoked_at = k.expires_at from due where k.org_id = due.org_id and k.id = due.id
    returning k.org_id, k.id, k.name, k.key_prefix`
  return { orgId: rows[0]?.org_id ?? null, keys: rows.map(namedOf) }
}

/** A notice that is late, because nothing ran, replaces those before it. */
async function takeNotices(tx: Transaction): Promise<Due<ExpiringKey>> {
  const rows = await tx<DueRow[]>`
    with first as (
      select org_id from keyhook.api_keys where revoked_at is null and notice_at <= now() and expires_at > now()
      order by notice_at limit 1 for no key update skip locked
    ), due as (
      select k.org_id, k.id from keyhook.api_keys k join first using (org_id)
      where k.revoked_at is null and k.notice_at <= now() and k.expires_at > now()
      limit 1000 for no key update of k skip locked
    )
    update keyhook.api_keys k set notice_at = keyhook.next_key_notice(k.expires_at, now())
    from due where k.org_id = due.org_id and k.id = due.id
    returning k.org_id, k.id, k.name, k.key_prefix, k.expires_at,
      ceil(extract(epoch from k.expires_at - now()) / 86400)::int as days_left`
  const keys = rows.map((row) => ({ ...namedOf(row), expiresAt: row.expires_at, daysLeft: row.days_left }))
  return { orgId: rows[0]?.org_id ?? null, keys }
}
