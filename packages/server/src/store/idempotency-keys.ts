import type { Database, Transaction } from '../db/database.ts'

/** `scope`: whose key it is. The same key of another caller is another key. */
export type IdempotencyKey = { scope: string; key: string; requestHash: string }

export type StoredAnswer = { status: number; location: string | null; body: string }

/**
 * Claims the key for this transaction. A request with the same key waits here until this transaction ends. Returns false if the
 * key has been used within a day.
 */
export const claimIdempotencyKey = async (
  tx: Transaction,
  { scope, key, requestHash }: IdempotencyKey,
): Promise<boolean> => {
  const rows = await tx`
    insert into keyhook.idempotency_keys as k (scope, key, request_hash) values (${scope}, ${key}, ${requestHash})
    on conflict (scope, key) do update
      set request_hash = excluded.request_hash, created_at = now(), status = null, location = null, body = null
      where k.created_at < now() - interval '24 hours'
    returning 1`
  return rows.length > 0
}

export const recordIdempotentAnswer = async (
  tx: Transaction,
  { scope, key }: IdempotencyKey,
  { status, location, body }: StoredAnswer,
): Promise<void> => {
  await tx`
    update keyhook.idempotency_keys set status = ${status}, location = ${location}, body = ${body}
    where scope = ${scope} and key = ${key}`
}

export const findIdempotentAnswer = async (
  tx: Transaction,
  { scope, key }: IdempotencyKey,
): Promise<StoredAnswer & { request_hash: string }> => {
  const [row] = await tx<(StoredAnswer & { request_hash: string })[]>`
    select request_hash, status, location, body from keyhook.idempotency_keys
    where scope = ${scope} and key = ${key}`
  return row!
}

export const deleteOldIdempotencyKeys = async (db: Database): Promise<void> => {
  await db`delete from keyhook.idempotency_keys where created_at < now() - interval '24 hours'`
}
