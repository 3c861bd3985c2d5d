import { type Actor, recordAudit } from '../access/audit.ts'
import type { Database, HoldOrganization, PublishingTransaction } from '../db/database.ts'
import { Fault } from '../lib/faults.ts'
import type { KeyId, OrgId } from '../lib/ids.ts'
import { hashApiKey, isApiKey } from '../lib/secrets.ts'
import { notifyOwners } from '../mail/notices.ts'
import { announceLeaked, announceRevoked } from './events.ts'
import { findReportedKeys, markLeaked } from './leaks-sql.ts'
import { recordRevocations } from './revocation.ts'
import { revokeWithDescendants } from './sql.ts'

/** A text that was found where others can read it. `source`: in what kind of place, for example `content` or `commit`. */
type LeakReport = { token: string; url: string | null; source: string | null }

type Reporter = { reportedBy: string; actor: Actor }

/**
 * Revokes the reported keys with their descendants, and tells their owners, once for each key. Returns whether each token is, or was,
 * a key of this installation. A token without the form and checksum of a key costs no query.
 */
export async function reportLeaks(
  deps: { db: Database; holdOrganization: HoldOrganization },
  reporter: Reporter,
  reports: readonly LeakReport[],
): Promise<boolean[]> {
  const byHash = new Map<string, LeakReport>()
  for (const report of reports) {
    if (!isApiKey(report.token)) continue
    const hash = hashApiKey(report.token)
    if (!byHash.has(hash)) byHash.set(hash, report)
  }
  if (byHash.size === 0) return reports.map(() => false)
  const found = await findReportedKeys(deps.db, [...byHash.keys()])
  for (const { hash, orgId, keyId, isKnown } of found) {
    if (isKnown) continue
    // One transaction for each: a publisher must not lock another key while it holds the counter of events.
    const work = deps.holdOrganization(orgId, (tx) => endLeaked(tx, reporter, { orgId, keyId, ...byHash.get(hash)! }))
    // An organization that is being deleted: its keys are revoked, and those of others have to be.
    await work.catch((error: unknown) => {
      if (!(error instanceof Fault) || error.code !== 'not_found') throw error
    })
  }
  const keys = new Set(found.map(({ hash }) => hash))
  return reports.map(({ token }) => isApiKey(token) && keys.has(hashApiKey(token)))
}

/** Call it with the organization locked. Of two reports at the same time the second finds the key marked. */
async function endLeaked(
  tx: PublishingTransaction,
  { reportedBy, actor }: Reporter,
  { orgId, keyId, url, source }: { orgId: OrgId; keyId: KeyId } & Omit<LeakReport, 'token'>,
): Promise<void> {
  const revoked = (await revokeWithDescendants(tx, orgId, keyId, null)) ?? []
  const foundAt = shown(url)
  const leaked = await markLeaked(tx, orgId, keyId, foundAt)
  if (leaked === null) return
  const details = { found_at: foundAt, source: shown(source), reported_by: reportedBy }
  await recordAudit(tx, { orgId, action: 'key.leaked', actor, targetId: keyId, details })
  await recordRevocations(tx, orgId, actor, revoked, (id) => ({
    details: id === keyId ? { reason: 'leaked' } : { descendant_of: keyId },
  }))
  const alsoRevoked = revoked.filter(({ id }) => id !== keyId).length
  await notifyOwners(tx, orgId, [{ kind: 'key.leaked', ...leaked, foundAt, alsoRevoked }])
  await announceLeaked(tx, orgId, { ...leaked, foundAt, alsoRevoked })
  await announceRevoked(tx, orgId, revoked, ({ id }) => (id === keyId ? 'leaked' : 'creator_revoked'))
}

const shownCharsMax = 2_000

/** What a reporter sends is shown in terminals, mails and pages: without characters that change how the rest is shown. */
const shown = (text: string | null): string | null =>
  text
    ?.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '')
    .slice(0, shownCharsMax)
    .toWellFormed() || null
