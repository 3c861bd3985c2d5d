import { isTransient, isUnavailable } from '../db/database.ts'
import type { OrgId } from '../kernel/ids.ts'
import { lockOrganization } from './organizations.ts'
import type { PublishingTransaction, Transact } from './publishing-transaction.ts'

/** A transaction in which no other one counts, and then adds, what this organization has. */
export type HoldOrganization = <T>(orgId: OrgId, work: (tx: PublishingTransaction) => Promise<T>) => Promise<T>

/**
 * One at a time for each organization: the others wait here and not in the database, each with a connection that another
 * organization could use.
 */
export function createHoldOrganization(transact: Transact): HoldOrganization {
  const lastOf = new Map<OrgId, Promise<unknown>>()

  return (orgId, work) => {
    const run = () =>
      transact(async (tx) => {
        await lockOrganization(tx, orgId)
        return work(tx)
      })
    // In an outage those that wait fail with the first: each would wait as long as it did, one after the other.
    const afterFailure = (error: unknown) =>
      isUnavailable(error) || isTransient(error) ? Promise.reject(error) : run()
    const result = lastOf.get(orgId)?.then(run, afterFailure) ?? run()
    const forget = () => {
      if (lastOf.get(orgId) === result) lastOf.delete(orgId)
    }
    lastOf.set(orgId, result)
    result.then(forget, forget)
    return result
  }
}
