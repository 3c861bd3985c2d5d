import type { Transaction } from '../db/database.ts'
import type { Actor } from '../domain/audit.ts'
import { newId, type OperatorTokenId } from '../kernel/ids.ts'
import { insertOperatorToken, type OperatorTokenRow } from '../store/operator-tokens.ts'
import { checkLabel } from './directory.ts'

/** Signs a token with this id. */
export type SignOperatorToken = (token: { tokenId: OperatorTokenId; ttlSeconds: number }) => Promise<string>

/** The row comes first: a token without one is refused. The token itself is not stored. */
export async function issueOperatorToken(
  tx: Transaction,
  sign: SignOperatorToken,
  actor: Actor,
  { name, ttlSeconds }: { name: string | null; ttlSeconds: number },
): Promise<{ row: OperatorTokenRow; token: string }> {
  if (name !== null) checkLabel('/name', name)
  const id = newId('tok')
  const createdBy = actor.kind === 'operator' ? actor.tokenId : null
  const row = await insertOperatorToken(tx, { id, name, ttlSeconds, createdBy })
  return { row, token: await sign({ tokenId: id, ttlSeconds }) }
}
