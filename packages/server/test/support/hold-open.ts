import type { Database, Transaction } from '../../src/db/database.ts'

/** A transaction that stands open, as a session does that somebody forgot, until the function that it returns is called. */
export async function holdOpen(
  db: Database,
  take: (tx: Transaction) => Promise<unknown>,
): Promise<() => Promise<void>> {
  const held = Promise.withResolvers<void>()
  const letGo = Promise.withResolvers<void>()
  const holding = db.begin(async (tx) => {
    await tx`set local idle_in_transaction_session_timeout = 0`
    await take(tx)
    held.resolve()
    await letGo.promise
  })
  await held.promise
  return async () => {
    letGo.resolve()
    await holding
  }
}
