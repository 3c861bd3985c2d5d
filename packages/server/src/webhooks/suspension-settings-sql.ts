import type { Executor, Transaction } from '../db/database.ts'
import type { OrgId } from '../lib/ids.ts'

/** Null: the organization has none of its own. */
export const findSuspendAfterHours = async (db: Executor, orgId: OrgId): Promise<number | null> => {
  const [row] = await db<{ hours: number | null }[]>`
    select suspend_after_hours as hours from keyhook.organizations where id = ${orgId}`
  return row!.hours
}

export const setSuspendAfterHours = async (
  tx: Transaction,
  orgId: OrgId,
  hours: number | null,
): Promise<number | null> => {
  const [row] = await tx<{ before: number | null }[]>`
    update keyhook.organizations o set suspend_after_hours = ${hours}
    from (select suspend_after_hours as before from keyhook.organizations where id = ${orgId} for no key update) old
    where o.id = ${orgId} returning old.before`
  return row!.before
}
