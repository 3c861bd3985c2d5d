import { hash } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import type { Database, Transaction } from '../db/database.ts'
import { Fault } from '../lib/faults.ts'
import { isRawNumber } from '../lib/json.ts'
import { chosen } from './basis.ts'
import { nestedTooDeeply } from './decode.ts'
import type { Answer, Call, Once, OperatorCall, Route } from './route.ts'

const here = chosen(96)

/** How long the answer to a key is kept. */
export const keptHours = 24

const keyPattern = '^[!-~]{1,255}$'

export const idempotencyHeader = {
  name: 'Idempotency-Key',
  description:
    'A name of yours for this creation, 1 to 255 visible characters. For 24 hours the same name with the same request creates nothing and answers the same record, without its secrets.',
  basis: here,
  pattern: keyPattern,
}

export const replayedHeader = {
  name: 'Idempotency-Replayed',
  description: '`true` if the record was created by an earlier request with the same `Idempotency-Key`.',
  basis: here,
}

/** Creations, except under /api/v1: there the header is ignored, as the published interface has no such thing. */
export const takesIdempotencyKey = ({ method, path, success }: Pick<Route, 'method' | 'path' | 'success'>): boolean =>
  method === 'POST' && (success.status === 201 || success.status === 202) && !path.startsWith('/api/')

/**
 * Claim, creation and answer are one transaction: after a crash all of them are stored or none, and of two requests at the same
 * time the second waits for the first. A creation that fails leaves the key unused.
 */
export function createOnce(key: IdempotencyKey | null): Once {
  return async (tx, create) => {
    if (key === null) return create()
    if (!(await claimIdempotencyKey(tx, key))) return replay(tx, key)
    const answer = await create()
    const location = 'location' in answer ? answer.location : null
    // The caller got the secrets once. Stored here they would be readable for a day.
    const body = JSON.stringify(answer.withoutSecrets ?? answer.body)
    await recordIdempotentAnswer(tx, key, { status: answer.status, location, body })
    return answer
  }
}

async function replay(tx: Transaction, key: IdempotencyKey): Promise<Answer> {
  const { request_hash: earlier, status, location, body } = await findIdempotentAnswer(tx, key)
  if (earlier !== key.requestHash) {
    throw new Fault('idempotency.key_reused', {
      public: 'This Idempotency-Key was used for another request within the last 24 hours. Use a new key.',
    })
  }
  const answer = { body: JSON.parse(body) as object, isReplayed: true }
  return status === 201 ? { status, location: location!, ...answer } : { status: 202, ...answer }
}

/** The key of a request, or null. Throws for one that cannot be a key. */
export function idempotencyKeyOf(
  request: FastifyRequest,
  caller: Pick<Call, 'access' | 'actor'> | Pick<OperatorCall, 'actor'>,
): IdempotencyKey | null {
  const key = request.headers['idempotency-key']
  if (key === undefined) return null
  if (typeof key !== 'string' || !new RegExp(keyPattern).test(key)) {
    throw new Fault('request.invalid', { public: 'Idempotency-Key: must be 1 to 255 visible ASCII characters' })
  }
  const { orgId } = request.params as { orgId?: string }
  // A new operator token is the same operator; another user is another caller.
  const scope = 'access' in caller ? `${orgId}/${caller.access.userId}` : 'operator'
  const content = `${request.method} ${request.url}\n${canonical(request.body)}`
  return { scope, key, requestHash: hash('sha256', content, 'base64url') }
}

/** The order of fields makes no difference: some languages do not keep it. */
function canonical(body: unknown): string {
  try {
    return JSON.stringify(body ?? null, (_, value) =>
      typeof value !== 'object' || value === null || Array.isArray(value) || isRawNumber(value)
        ? value
        : Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))),
    )
  } catch (error) {
    if (error instanceof RangeError) throw nestedTooDeeply()
    throw error
  }
}

/** `scope`: whose key it is. The same key of another caller is another key. */
export type IdempotencyKey = { scope: string; key: string; requestHash: string }

type StoredAnswer = { status: number; location: string | null; body: string }

/**
 * Claims the key for this transaction. A request with the same key waits here until this transaction ends. Returns false if the
 * key has been used within a day.
 */
const claimIdempotencyKey = (tx: Transaction, { scope, key, requestHash }: IdempotencyKey) =>
  tx`
    insert into keyhook.idempotency_keys as k (scope, key, request_hash) values (${scope}, ${key}, ${requestHash})
    on conflict (scope, key) do update
      set request_hash = excluded.request_hash, created_at = now(), status = null, location = null, body = null
      where k.created_at < now() - make_interval(hours => ${keptHours})`.exists()

const recordIdempotentAnswer = (tx: Transaction, { scope, key }: IdempotencyKey, answer: StoredAnswer) => tx`
  update keyhook.idempotency_keys set status = ${answer.status}, location = ${answer.location}, body = ${answer.body}
  where scope = ${scope} and key = ${key}`

const findIdempotentAnswer = (tx: Transaction, { scope, key }: IdempotencyKey) =>
  tx<(StoredAnswer & { request_hash: string })[]>`
    select request_hash, status, location, body from keyhook.idempotency_keys
    where scope = ${scope} and key = ${key}`.one()

export const deleteOldIdempotencyKeys = async (db: Database): Promise<void> => {
  await db`delete from keyhook.idempotency_keys where created_at < now() - make_interval(hours => ${keptHours})`
}
