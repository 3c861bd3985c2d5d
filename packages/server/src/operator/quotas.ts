import { type Actor, recordAudit } from '../access/audit.ts'
import { findQuotas, type QuotaName, type Quotas, quotaNames } from '../access/quotas.ts'
import { storageLimitsOf } from '../databases/usage-sql.ts'
import { archivedBytes } from '../databases/wal-sql.ts'
import type { Database } from '../db/database.ts'
import type { OrgId } from '../lib/ids.ts'
import { noSuch } from '../organizations/rules.ts'
import { countMembers, findOrganization, lockOrganization } from '../organizations/sql.ts'
import { countRecords, storeQuotas } from './quotas-sql.ts'

/** What an organization uses, and may use. Null: not counted here; no limit. `is_own`: the limit is that of this organization. */
export type QuotaUse = Record<QuotaName, { used: number | null; limit: number | null; is_own: boolean }>

/** What holds for organizations without quotas of their own. */
export type QuotaSettings = {
  keysPerOrgMax: number
  webhooksPerOrgMax: number
  databasesPerOrgMax: number
  archivesPerOrgMax: number
  databaseStorageMax: number
  keyRequestsPerMinuteMax: number | null
  orgRequestsPerMinuteMax: number | null
}

const settingsOf = (config: QuotaSettings): Quotas => ({
  keys: config.keysPerOrgMax,
  webhooks: config.webhooksPerOrgMax,
  databases: config.databasesPerOrgMax,
  members: null,
  database_bytes: null,
  archive_bytes: config.archivesPerOrgMax,
  key_requests: config.keyRequestsPerMinuteMax,
  requests: config.orgRequestsPerMinuteMax,
})

export async function readQuotas(db: Database, config: QuotaSettings, orgId: OrgId): Promise<QuotaUse> {
  if ((await findOrganization(db, orgId)) === null) throw noSuch('organization', orgId)
  const [own, counts, { members, invitations }, database_bytes, archive_bytes] = await Promise.all([
    findQuotas(db, orgId),
    countRecords(db, orgId),
    countMembers(db, orgId),
    storageLimitsOf(db, orgId, config.databaseStorageMax),
    archivedBytes(db, orgId),
  ])
  const settings = settingsOf(config)
  const used: Partial<Record<QuotaName, number>> = {
    ...counts,
    members: members + invitations,
    database_bytes,
    archive_bytes,
  }
  return Object.fromEntries(
    quotaNames.map((name) => [
      name,
      { used: used[name] ?? null, limit: own[name] ?? settings[name], is_own: own[name] !== null },
    ]),
  ) as QuotaUse
}

/** What is absent stays as it is; null is the setting again. Everything that exists stays, also above a lower quota. */
export const changeQuotas = (
  db: Database,
  actor: Actor,
  { orgId, changes }: { orgId: OrgId; changes: Partial<Quotas> },
): Promise<void> =>
  db.begin(async (tx) => {
    if (!(await lockOrganization(tx, orgId))) throw noSuch('organization', orgId)
    const before = await findQuotas(tx, orgId)
    const changed = quotaNames.filter((name) => changes[name] !== undefined && changes[name] !== before[name])
    if (changed.length === 0) return
    await storeQuotas(tx, orgId, { ...before, ...changes })
    const details = Object.fromEntries(changed.map((name) => [name, changes[name]!]))
    await recordAudit(tx, { orgId, action: 'organization.quotas_set', actor, targetId: orgId, details })
  })
