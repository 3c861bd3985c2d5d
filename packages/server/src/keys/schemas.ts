import Type from 'typebox'
import { keyPermissions, permissionPresets } from '../access/restrictions.ts'
import { choice, chosen, mark, specified, withChoices } from '../http/basis.ts'
import { pageQuery, wholeListQuery } from '../http/lists.ts'
import { createdAt, id, label, nullable, timestamp } from '../http/schemas.ts'
import { overlapSecondsMax } from './rules.ts'

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

export const newApiKey = Type.Object(
  { name: label('A label for people.', 'ci') },
  { $id: 'NewApiKey', additionalProperties: false, ...specified },
)

export const createdApiKey = Type.Object(
  {
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
  },
  { $id: 'CreatedApiKey', additionalProperties: false, ...specified },
)

const listed = () => ({
  id: id('key', 'The <api_key_id> of the revoke path.'),
  name: Type.String({ description: 'A label for people.', examples: ['ci'] }),
  key_prefix: keyPrefix(),
  status: Type.Enum(['active', 'revoked'], { description: 'A revoked key never comes back.' }),
  created_by: id('usr', 'The user whom the key acts as.'),
  created_by_key: mark(
    chosen(90),
    Type.Union([id('key', 'The key that it was created with; null for a login token.'), Type.Null()]),
  ),
  creator_left: mark(
    chosen(90),
    Type.Boolean({ description: 'The user is no member now, and the key is refused until they are one again.' }),
  ),
  created_at: createdAt(),
  last_used_at: Type.Union([
    timestamp('The last request that it authenticated, up to twenty seconds behind.'),
    Type.Null(),
  ]),
})

export const apiKeyList = Type.Array(
  Type.Object(
    { ...listed(), key_prefix: mark(specified, keyPrefix()) },
    { $id: 'ApiKey', additionalProperties: false, ...chosen(9) },
  ),
)

export const apiKeyQuery = Type.Object(
  {
    ...wholeListQuery,
    status: Type.Optional(
      mark(
        chosen(9),
        Type.Enum(['active', 'revoked', 'all'], { description: 'Which keys to list; active ones when absent.' }),
      ),
    ),
  },
  { additionalProperties: false },
)

/** Of everything that restricts a key. */
export const restrictionBasis = chosen(173)
export const rotationBasis = chosen(174)

const limits = () => ({
  permissions: nullable(
    Type.Array(Type.Enum([...keyPermissions]), {
      minItems: 1,
      maxItems: keyPermissions.length,
      uniqueItems: true,
      description:
        'What the key may do at most; the current role of its user limits it further. With `:own`, only with what that user created. Null: whatever the role may do.',
      examples: [['webhooks:read', 'deliveries:read']],
    }),
  ),
  databases: nullable(
    Type.Array(id('db', 'A database.'), {
      minItems: 1,
      maxItems: 100,
      uniqueItems: true,
      description:
        'The only databases that the key reaches, with their backups, restores and events. Such a key can do nothing else but list its organization. Null: all.',
    }),
  ),
  allowed_networks: nullable(
    Type.Array(Type.String({ maxLength: 50, description: 'A CIDR or an address.', examples: ['203.0.113.0/24'] }), {
      minItems: 1,
      maxItems: 100,
      uniqueItems: true,
      description: 'The only networks that requests with the key may come from. Null: all.',
    }),
  ),
  expires_at: nullable(timestamp('From then on the key is revoked. Null: it does not expire.')),
})

export const newRestrictedKey = Type.Object(
  {
    name: label('A label for people.', 'ci'),
    ...Type.Partial(Type.Object(limits())).properties,
    preset: Type.Optional(
      Type.Enum(Object.keys(permissionPresets) as (keyof typeof permissionPresets)[], {
        description:
          'In place of `permissions`: `read_only`, `webhooks` (webhooks and deliveries) or `databases` (databases, backups and restores). The key stores the permissions.',
      }),
    ),
  },
  { $id: 'NewRestrictedApiKey', additionalProperties: false, ...restrictionBasis },
)

export const keyChanges = Type.Object(
  {
    name: Type.Optional(label('A label for people.', 'ci')),
    ...Type.Partial(Type.Object(limits())).properties,
  },
  { $id: 'ApiKeyUpdate', additionalProperties: false, ...restrictionBasis },
)

const created = () => ({
  ...createdApiKey.properties,
  // A repetition with the same Idempotency-Key does not show the key.
  api_key: Type.Optional(createdApiKey.properties.api_key),
})

export const keyDetails = Type.Object(
  {
    ...listed(),
    ...limits(),
    expired: Type.Boolean({ description: 'Whether `status` is `revoked` because the key has expired.' }),
    refused: Type.Object(
      {
        count: Type.Integer({ minimum: 0, description: 'Requests that came from another network.' }),
        last_at: nullable(timestamp('The last of them.')),
        last_address: nullable(Type.String({ description: 'Where it came from.', examples: ['198.51.100.7'] })),
      },
      { additionalProperties: false, description: 'Up to a few seconds behind.' },
    ),
  },
  { $id: 'ApiKeyDetails', additionalProperties: false, ...restrictionBasis },
)

export const createdRestrictedKey = Type.Object(created(), {
  $id: 'CreatedRestrictedApiKey',
  additionalProperties: false,
  ...restrictionBasis,
})

export const keyDetailsQuery = Type.Object(
  {
    ...pageQuery,
    status: Type.Optional(
      Type.Enum(['active', 'revoked', 'all'], { description: 'Which keys to list; active ones when absent.' }),
    ),
    unused_days: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 3_650,
        description: 'Only keys that were neither created nor used within so many days.',
      }),
    ),
  },
  { additionalProperties: false },
)

export const keyLifetimeSettings = Type.Object(
  {
    days_max: nullable(
      Type.Integer({
        minimum: 1,
        maximum: 3_650,
        description: 'Days that a new key lasts at most. Null: as the operator has set it.',
        examples: [90],
      }),
    ),
  },
  { $id: 'KeyLifetime', additionalProperties: false, ...restrictionBasis },
)

export const newRotation = Type.Object(
  {
    overlap_seconds: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: overlapSecondsMax,
        description: 'How long the old key stays valid: an hour when absent, 0 for not at all.',
        examples: [3600],
      }),
    ),
    expires_at: Type.Optional(
      nullable(timestamp('When the new key expires: like the old one when absent. Later takes a login token.')),
    ),
  },
  { $id: 'NewKeyRotation', additionalProperties: false, ...rotationBasis },
)

/** Of the revocation with descendants. */
export const revocationBasis = chosen(91)

export const newRevocation = Type.Object(
  {
    descendants: Type.Optional(
      Type.Boolean({
        description:
          'Whether every key that was created with it ends too, directly or through others. True when absent.',
        examples: [false],
      }),
    ),
  },
  { $id: 'NewRevocation', additionalProperties: false, ...revocationBasis, examples: [{ descendants: false }] },
)

export const revokedApiKeys = Type.Object(
  {
    revoked: Type.Array(id('key', 'A key.'), {
      description: 'The keys that were active until this call, oldest first; none when it is repeated.',
    }),
  },
  { $id: 'RevokedApiKeys', additionalProperties: false, ...revocationBasis },
)
