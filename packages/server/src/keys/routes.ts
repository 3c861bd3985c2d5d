import type { Database } from '../db/database.ts'
import type { HoldOrganization } from '../db/publishing-transaction.ts'
import { choice, specified } from '../http/basis.ts'
import { listById } from '../http/lists.ts'
import { type Route, route } from '../http/route.ts'
import { isoTime } from '../lib/time.ts'
import { type CreationDeps, createApiKey, revokeOne, revokeTree } from './rules.ts'
import {
  apiKeyList,
  apiKeyQuery,
  createdApiKey,
  newApiKey,
  newRevocation,
  revocationBasis,
  revokedApiKeys,
} from './schemas.ts'
import { type ApiKeyRow, listApiKeys } from './sql.ts'

const path = '/api/v1/organizations/:orgId/api-keys'

export function apiKeyRoutes(deps: CreationDeps & { db: Database }): Route[] {
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
      faults: ['limit.reached', 'auth.login_required'],
      success: {
        status: 201,
        description: 'The key. Keep `api_key`: it cannot be shown again.',
        schema: createdApiKey,
      },
      async handler({ orgId, userId, actor, body: { name } }) {
        const { id, keyPrefix, apiKey } = await createApiKey(deps, { orgId, userId, actor, name })
        const location = `${path.replace(':orgId', orgId)}/${id}`
        return { status: 201, location, body: { id, name, key_prefix: keyPrefix, api_key: apiKey } }
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
      success: { status: 200, description: 'The keys. Never `api_key`.', schema: apiKeyList },
      async handler({ orgId, userId, reach, query }) {
        const filter = { status: query.status ?? 'active', createdBy: reach === 'own' ? userId : null }
        return listById('key', apiKeyOf, (request) => listApiKeys(deps.db, orgId, filter, request))
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
      faults: ['auth.login_required'],
      success: { status: 204, description: 'The key is revoked.' },
      async handler({ orgId, userId, actor, reach, params: { keyId } }) {
        const createdBy = reach === 'own' ? userId : null
        await deps.db.begin((tx) => revokeOne(tx, { orgId, keyId, createdBy, actor }))
        return { status: 204 }
      },
    }),
  ]
}

export const apiKeyOf = (row: ApiKeyRow) => ({
  id: row.id,
  name: row.name,
  key_prefix: row.key_prefix,
  status: row.revoked ? 'revoked' : 'active',
  created_by: row.created_by,
  created_by_key: row.created_by_key,
  creator_left: row.creator_left,
  created_at: isoTime(row.created_at),
  last_used_at: row.last_used_at && isoTime(row.last_used_at),
})

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
      basis: revocationBasis,
      choices: [
        choice(91, 'A key and its descendants always act as the same user, so who may revoke it may revoke them.'),
      ],
      tag: 'API keys',
      summary: 'Revoke an API key and its descendants',
      description:
        'For a leaked key: it can have created others, which outlive it. All of them stop working at once, unless `descendants` is false, and a key that one of them is creating meanwhile is not created.',
      body: newRevocation,
      faults: ['auth.login_required'],
      success: { status: 200, description: 'The keys are revoked.', schema: revokedApiKeys },
      async handler({ orgId, userId, actor, reach, params: { keyId }, body }) {
        const createdBy = reach === 'own' ? userId : null
        const request = { orgId, keyId, createdBy, actor }
        const revoked = await deps.holdOrganization(orgId, (tx) =>
          (body.descendants ?? true) ? revokeTree(tx, request) : revokeOne(tx, request),
        )
        return { status: 200, body: { revoked } }
      },
    }),
  ]
}
