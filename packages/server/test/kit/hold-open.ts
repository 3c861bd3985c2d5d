import type { Database, Transaction } from '../../src/db/database.ts'

/** Keeps a transaction open until the returned function is called. */
export async function holdOpen(
  db: Database,
  take: (tx: Transaction) => Promise<unknown>,
): Promise<() => Promise<void>> {
  const held = Promise.withResolvers<void>()
  const release = Promise.withResolvers<void>()
  const holding = db.begin(async (tx) => {
    await tx`set local idle_in_transaction_session_timeout = 0`
    await take(tx)
    held.resolve()
    await release.promise
  })
  await held.promise
  return async () => {
    release.resolve()
    await holding
  }
}
