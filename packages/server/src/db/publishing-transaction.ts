import type { OrgId } from '../lib/ids.ts'
import type { Database, Transaction } from './database.ts'

/** A transaction that may publish. Whatever publishes asks for this type, so that no commit goes without its hint. */
export type PublishingTransaction = Transaction & {
  /** Deliveries of this organization became due. */
  hintAfterCommit(orgId: OrgId): void
}

export type Transact = <T>(work: (tx: PublishingTransaction) => Promise<T>) => Promise<T>

/** `hint` is called after the commit, with the organizations that the transaction published to. */
export const createTransact =
  (db: Database, hint: (orgIds: readonly OrgId[]) => void): Transact =>
  async (work) => {
    const orgIds = new Set<OrgId>()
    const result = await db.begin((tx) =>
      work(Object.assign(tx, { hintAfterCommit: (orgId: OrgId) => void orgIds.add(orgId) })),
    )
    if (orgIds.size > 0) hint([...orgIds])
    return result
  }

/** A transaction in which no other one counts, and then adds, what this organization has. */
export type HoldOrganization = <T>(orgId: OrgId, work: (tx: PublishingTransaction) => Promise<T>) => Promise<T>
