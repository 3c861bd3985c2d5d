import type { Executor } from '../db/database.ts'
import { Fault } from '../lib/faults.ts'
import type { OrgId } from '../lib/ids.ts'

export const quotaNames = [
  'keys',
  'webhooks',
  'databases',
  'members',
  'database_bytes',
  'archive_bytes',
  'key_requests',
  'requests',
] as const
export type QuotaName = (typeof quotaNames)[number]

/** What the operator has set for one organization; null: the setting of the installation holds. */
export type Quotas = Record<QuotaName, number | null>

const none = Object.fromEntries(quotaNames.map((name) => [name, null])) as Quotas

/** Call it with the organization locked where a creation depends on it: a quota is set under the same lock. */
export const findQuotas = async (db: Executor, orgId: OrgId): Promise<Quotas> => {
  const [row] = await db<Quotas[]>`
    select keys, webhooks, databases, members, database_bytes::float8, archive_bytes::float8, key_requests, requests
    from keyhook.organization_quotas where org_id = ${orgId}`
  return row ?? none
}

/** `isOwn`: of this organization, and not of every one. */
type Limit<Max extends number | null = number> = { max: Max; isOwn: boolean }

/** `setting`: null where no limit is set. */
export const limitOf = <Max extends number | null>(quota: number | null, setting: Max): Limit<Max | number> => ({
  max: quota ?? setting,
  isOwn: quota !== null,
})

/** `what`: in the plural. A quota that was lowered may be exceeded already, so its text does not say how many there are. */
export const limitReached = ({ max, isOwn }: Limit, what: string, advice: string): Fault =>
  new Fault('limit.reached', {
    public: isOwn
      ? `The operator has limited this organization to ${max} ${what}. ${advice}`
      : `This organization has ${max} ${what}, the most it may have. ${advice}`,
  })
