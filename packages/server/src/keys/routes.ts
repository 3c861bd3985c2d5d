import Type from 'typebox'
import type { Database, HoldOrganization, Transact } from '../db/database.ts'
import { choice, chosen, mark, specified, withChoices } from '../http/basis.ts'
import { listById, wholeListQuery } from '../http/lists.ts'
import { type Route, route } from '../http/route.ts'
import { closed, component, createdAt, id, label, nullable, timestamp } from '../http/schemas.ts'
import { isoTime } from '../lib/time.ts'
import { revokeOne, revokeTree } from './revocation.ts'
import { type CreationDeps, createApiKey } from './rules.ts'
import { type ApiKeyRow, listApiKeys } from './sql.ts'

const alphabet = choice(10, 'Base62 after the tag, which is `kh` unless the operator has set another.')

const keyPrefix = () =>
  withChoices(
    Type.String({
      pattern: '^[a-z][a-z0-9]{0,9}_[0-9A-Za-z]{8}$',
      description: 'The leading part of the key, to tell keys apart: a fixed tag, an underscore, 8 characters.',
      examples: ['kh_Example1'],
    }),
    alphabet,
    choice(10, 'No two keys of an organization share it.'),
  )

const newApiKey = component('NewApiKey', specified, { name: label('A label for people.', 'ci') })

export const createdApiKey = component('CreatedApiKey', specified, {
  id: id('key', 'The <api_key_id> of the revoke path.'),
  name: Type.String({ description: 'A label for people, as it was sent.', examples: ['ci'] }),
  key_prefix: keyPrefix(),
  api_key: withChoices(
    Type.String({
      pattern: '^[a-z][a-z0-9]{0,9}_[0-9A-Za-z]{8}_[0-9A-Za-z]{32}$',
      description: 'The key itself, `<key_prefix>_<32 characters>`. Shown once.',
      examples: ['kh_Example1_ExampleExampleExampleExample0000'],
    }),
    alphabet,
    choice(10, 'The last six characters are the CRC-32 of everything before them.'),
  ),
})

export const listedKey = () => ({
  id: id('key', 'The <api_key_id> of the revoke path.'),
  name: Type.String({ description: 'A label for people.', examples: ['ci'] }),
  key_prefix: keyPrefix(),
  status: Type.Enum(['active', 'revoked'], { description: 'A revoked key never comes back.' }),
  created_by: id('usr', 'The user whom the key acts as.'),
  created_by_key: mark(chosen(90), nullable(id('key', 'The key that it was created with; null for a login token.'))),
  creator_left: mark(
    chosen(90),
    Type.Boolean({ description: 'The user is no member now, and the key is refused until they are one again.' }),
  ),
  created_at: createdAt(),
  last_used_at: nullable(timestamp('The last request that it authenticated, up to twenty seconds behind.')),
})

const apiKeyList = Type.Array(
  component('ApiKey', chosen(9), { ...listedKey(), key_prefix: mark(specified, keyPrefix()) }),
)

const apiKeyQuery = closed({
  ...wholeListQuery,
  status: Type.Optional(
    mark(
      chosen(9),
      Type.Enum(['active', 'revoked', 'all'], { description: 'Which keys to list; active ones when absent.' }),
    ),
  ),
})

/** Of the revocation with descendants. */
const revocationBasis = chosen(91)

const newRevocation = component(
  'NewRevocation',
  revocationBasis,
  {
    descendants: Type.Optional(
      Type.Boolean({
        description:
          'Whether every key that was created with it ends too, directly or through others. True when absent.',
        examples: [false],
      }),
    ),
  },
  { examples: [{ descendants: false }] },
)

const revokedApiKeys = component('RevokedApiKeys', revocationBasis, {
  revoked: Type.Array(id('key', 'A key.'), {
    description: 'The keys that were active until this call, oldest first; none when it is repeated.',
  }),
})

const path = '/api/v1/organizations/:orgId/api-keys'

export function apiKeyRoutes(deps: CreationDeps & { db: Database; transact: Transact }): Route[] {
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
        await deps.transact((tx) => revokeOne(tx, { orgId, keyId, createdBy, actor }))
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
