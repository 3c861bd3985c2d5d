import { isTransient, isUnavailable } from '../db/database.ts'
import type { HoldOrganization, Transact } from '../db/publishing-transaction.ts'
import type { OrgId } from '../lib/ids.ts'
import { createTurns } from '../lib/turns.ts'
import { lockOrganization } from './sql.ts'

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
