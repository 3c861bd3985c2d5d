import { standby } from '../access/access.ts'
import type { Database, Executor, PageRequest, Transaction } from '../db/database.ts'
import type { OperatorTokenId } from '../lib/ids.ts'

export type OperatorTokenRow = {
  id: OperatorTokenId
  name: string | null
  created_at: Date
  expires_at: Date
  /** The operator token that issued it; null for the command line. */
  created_by: string | null
  revoked_at: Date | null
}

export const insertOperatorToken = (
  tx: Transaction,
  token: { id: OperatorTokenId; name: string | null; ttlSeconds: number; createdBy: string | null },
) =>
  tx<OperatorTokenRow[]>`
    insert into keyhook.operator_tokens (id, name, expires_at, created_by)
    values (${token.id}, ${token.name}, now() + make_interval(secs => ${token.ttlSeconds}), ${token.createdBy})
    returning id, name, created_at, expires_at, created_by, revoked_at`.one()

export const listOperatorTokens = (db: Database, { before, limit }: PageRequest) => db<OperatorTokenRow[]>`
  select id, name, created_at, expires_at, created_by, revoked_at
  from keyhook.operator_tokens
  where ${before}::text is null or id < ${before}
  order by id desc
  limit ${limit}`

/** Returns false for an unknown token. Revoking a revoked one changes nothing. */
export const revokeOperatorToken = (db: Executor, id: OperatorTokenId, revokedBy: string | null) =>
  db`
    update keyhook.operator_tokens
    set revoked_at = coalesce(revoked_at, now()),
        revoked_by = case when revoked_at is null then ${revokedBy}::text else revoked_by end
    where id = ${id}`.exists()

const findUsable = async (db: Database, ids: readonly string[]): Promise<Set<string>> => {
  const rows = await db<{ id: string; standby: boolean }[]>`
    select id, pg_is_in_recovery() as standby from keyhook.operator_tokens
    where id = any (${[...ids]}::text[]) and revoked_at is null`
  if (rows[0]?.standby) throw standby()
  return new Set(rows.map(({ id }) => id))
}

/**
 * Whether an operator token is issued and not revoked. Requests of one turn of the event loop share a statement, which is sent after
 * they arrived: nothing is kept afterwards.
 */
export function createOperatorTokenLookup(db: Database): (id: string) => Promise<boolean> {
  let open: { ids: Set<string>; usable: Promise<Set<string>> } | null = null

  function openBatch() {
    const ids = new Set<string>()
    const usable = new Promise<void>((resolve) => void setImmediate(resolve)).then(() => {
      open = null
      return findUsable(db, [...ids])
    })
    return { ids, usable }
  }

  return async (id) => {
    open ??= openBatch()
    open.ids.add(id)
    return (await open.usable).has(id)
  }
}
