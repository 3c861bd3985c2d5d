import Type from 'typebox'
import { mintApiKey } from '../access/api-key.ts'
import { insertAudits, recordAudit } from '../access/audit.ts'
import { invalidToken } from '../access/faults.ts'
import { type Database, isUniqueViolation } from '../db/database.ts'
import type { HoldOrganization } from '../db/publishing-transaction.ts'
import { choice, chosen, specified } from '../http/basis.ts'
import { listById } from '../http/lists.ts'
import { type Call, type Route, route } from '../http/route.ts'
import { id } from '../http/schemas.ts'
import { Fault, notFound } from '../lib/faults.ts'
import { type KeyId, newId } from '../lib/ids.ts'
import { isoTime } from '../lib/time.ts'
import { apiKeyList, apiKeyQuery, createdApiKey, newApiKey } from './schemas.ts'
import {
  type ApiKeyRow,
  insertApiKey,
  keyPrefixTaken,
  listApiKeys,
  lockActiveKey,
  revokeApiKey,
  revokeWithDescendants,
} from './sql.ts'

const path = '/api/v1/organizations/:orgId/api-keys'

export function apiKeyRoutes(deps: {
  db: Database
  holdOrganization: HoldOrganization
  keyTag: string
  keysPerOrgMax: number
}): Route[] {
  async function create({ orgId, userId, actor, body }: Call<{ name: string }>) {
    const key = mintApiKey(deps.keyTag)
    const id = newId('key')
    const createdByKey = actor.kind === 'key' ? actor.keyId : null
    const stored = { id, name: body.name, keyPrefix: key.keyPrefix, hash: key.hash, createdBy: userId, createdByKey }
    const details = { name: body.name, key_prefix: key.keyPrefix }
    await deps.holdOrganization(orgId, async (tx) => {
      const inserted = await insertApiKey(tx, orgId, stored, deps.keysPerOrgMax)
      if (inserted === null) throw tooManyKeys(deps.keysPerOrgMax)
      // A member or key that was removed since the request was authenticated must leave no key behind.
      if (inserted.role === null) throw invalidToken(`${userId} was removed while they created a key`)
      if (createdByKey !== null && !(await lockActiveKey(tx, orgId, createdByKey))) {
        throw invalidToken(`${createdByKey} was revoked while it created a key`)
      }
      await recordAudit(tx, { orgId, action: 'key.created', actor, targetId: id, details })
    })
    return { id, name: body.name, key_prefix: key.keyPrefix, api_key: key.apiKey }
  }

  return [
    route({
      method: 'POST',
      path,
      needs: 'keys:create',
      audit: 'key.created',
      basis: specified,
      choices: [
        choice(11, 'The key reaches this organization only.'),
        choice(27, 'An organization has at most 10,000 active keys, unless the operator has set another limit.'),
      ],
      tag: 'API keys',
      summary: 'Create an API key',
      description:
        'Makes a key that acts as the calling user, with the role that user has in this organization at the time of each request. `api_key` is shown here and never again.',
      body: newApiKey,
      faults: ['limit.reached', 'not_found', 'auth.login_required'],
      success: {
        status: 201,
        description: 'The key. Keep `api_key`: it cannot be shown again.',
        schema: createdApiKey,
      },
      async handler(call) {
        const body = await withFreshPrefix(() => create(call))
        return { status: 201, location: `${path.replace(':orgId', call.orgId)}/${body.id}`, body }
      },
    }),
    route({
      method: 'GET',
      path,
      needs: 'keys:read',
      audit: null,
      basis: specified,
      choices: [choice(9, 'Active keys, unless `?status=` asks for others.')],
      tag: 'API keys',
      summary: 'List API keys',
      description:
        'The keys of the organization, each by its `key_prefix`. A role that reaches only its own keys sees only those.',
      query: apiKeyQuery,
      faults: ['not_found'],
      success: { status: 200, description: 'The keys. Never `api_key`.', schema: apiKeyList },
      async handler({ orgId, userId, reach, query }) {
        const filter = { status: query.status ?? 'active', createdBy: reach === 'own' ? userId : null }
        return listById('key', record, (request) => listApiKeys(deps.db, orgId, filter, request))
      },
    }),
    route({
      method: 'DELETE',
      path: `${path}/:keyId`,
      needs: 'keys:revoke',
      audit: 'key.revoked',
      basis: specified,
      choices: [
        choice(12, 'Revoking a revoked key is answered like the first time.'),
        choice(91, 'Keys that were created with it stay; `POST /platform/v1/…/revoke` ends them too.'),
      ],
      tag: 'API keys',
      summary: 'Revoke an API key',
      description:
        'The key stops working at once: every request that begins after this answer is refused, on every node.',
      faults: ['not_found', 'auth.login_required'],
      success: { status: 204, description: 'The key is revoked.' },
      async handler({ orgId, userId, actor, reach, params: { keyId: id } }) {
        await deps.db.begin(async (tx) => {
          const outcome = await revokeApiKey(tx, orgId, id, reach === 'own' ? userId : null)
          if (outcome === 'no_such_key') throw notFound(`${id} is not in ${orgId}, or not the caller's`)
          if (outcome === 'revoked') await recordAudit(tx, { orgId, action: 'key.revoked', actor, targetId: id })
        })
        return { status: 204 }
      },
    }),
  ]
}

const record = (row: ApiKeyRow) => ({
  id: row.id,
  name: row.name,
  key_prefix: row.key_prefix,
  status: row.revoked_at === null ? 'active' : 'revoked',
  created_by: row.created_by,
  created_by_key: row.created_by_key,
  creator_left: row.creator_left,
  created_at: isoTime(row.created_at),
  last_used_at: row.last_used_at && isoTime(row.last_used_at),
})

const tooManyKeys = (max: number): Fault =>
  new Fault('limit.reached', {
    public: `This organization has ${max} active API keys, the most it may have. Revoke one first.`,
  })

/** Two keys of one organization must not share a prefix, which identifies them. With 47 bits that is rare. */
async function withFreshPrefix<T>(create: () => Promise<T>): Promise<T> {
  try {
    return await create()
  } catch (error) {
    if (!isUniqueViolation(error, keyPrefixTaken)) throw error
    return create()
  }
}

const here = chosen(91)

const revocation = Type.Object(
  {
    descendants: Type.Optional(
      Type.Boolean({
        description:
          'Whether every key that was created with it ends too, directly or through others. True when absent.',
        examples: [false],
      }),
    ),
  },
  { $id: 'NewRevocation', additionalProperties: false, ...here, examples: [{ descendants: false }] },
)

const revoked = Type.Object(
  {
    revoked: Type.Array(id('key', 'A key.'), {
      description: 'The keys that were active until this call, oldest first; none when it is repeated.',
    }),
  },
  { $id: 'RevokedApiKeys', additionalProperties: false, ...here },
)

export function keyRevocationRoutes(deps: {
  /** Not the queue of creations: a leaked key that creates keys as fast as it can must not delay its revocation. */
  holdOrganization: HoldOrganization
}): Route[] {
  return [
    route({
      method: 'POST',
      path: '/platform/v1/organizations/:orgId/api-keys/:keyId/revoke',
      needs: 'keys:revoke',
      audit: 'key.revoked',
      basis: here,
      choices: [
        choice(91, 'A key and its descendants always act as the same user, so who may revoke it may revoke them.'),
      ],
      tag: 'API keys',
      summary: 'Revoke an API key and its descendants',
      description:
        'For a leaked key: it can have created others, which outlive it. All of them stop working at once, unless `descendants` is false, and a key that one of them is creating meanwhile is not created.',
      body: revocation,
      faults: ['not_found', 'auth.login_required'],
      success: { status: 200, description: 'The keys are revoked.', schema: revoked },
      async handler({ orgId, userId, actor, reach, params: { keyId }, body }) {
        const createdBy = reach === 'own' ? userId : null
        const keys = await deps.holdOrganization(orgId, async (tx) => {
          const ended =
            (body.descendants ?? true)
              ? await revokeWithDescendants(tx, orgId, keyId, createdBy)
              : idsOf(await revokeApiKey(tx, orgId, keyId, createdBy), keyId)
          if (ended === null) throw notFound(`${keyId} is not in ${orgId}, or not the caller's`)
          const entry = (targetId: KeyId) => ({
            orgId,
            action: 'key.revoked' as const,
            actor,
            targetId,
            ...(targetId !== keyId && { details: { descendant_of: keyId } }),
          })
          if (ended.length > 0) await insertAudits(tx, ended.map(entry))
          return ended
        })
        return { status: 200, body: { revoked: keys } }
      },
    }),
  ]
}

const idsOf = (outcome: Awaited<ReturnType<typeof revokeApiKey>>, keyId: KeyId): KeyId[] | null =>
  ({ revoked: [keyId], already_revoked: [], no_such_key: null })[outcome]
