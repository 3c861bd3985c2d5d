import { isTransient, isUnavailable } from '../db/database.ts'
import type { OrgId } from '../kernel/ids.ts'
import { createTurns } from '../kernel/turns.ts'
import { lockOrganization } from './organizations.ts'
import type { PublishingTransaction, Transact } from './publishing-transaction.ts'

/** A transaction in which no other one counts, and then adds, what this organization has. */
export type HoldOrganization = <T>(orgId: OrgId, work: (tx: PublishingTransaction) => Promise<T>) => Promise<T>

/**
 * One at a time for each organization: the others wait here and not in the database, each with a connection that another
 * organization could use.
 */
export function createHoldOrganization(transact: Transact): HoldOrganization {
  const inTurn = createTurns<OrgId>((error) => isUnavailable(error) || isTransient(error))

  return (orgId, work) =>
    inTurn([orgId], () =>
      transact(async (tx) => {
        await lockOrganization(tx, orgId)
        return work(tx)
      }),
    )
}
