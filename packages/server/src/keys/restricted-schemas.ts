import Type from 'typebox'
import { keyPermissions, permissionPresets } from '../access/restrictions.ts'
import { chosen, mark } from '../http/basis.ts'
import { pageQuery } from '../http/lists.ts'
import { closed, component, id, label, nullable, timestamp } from '../http/schemas.ts'
import { overlapSecondsMax } from './rotation.ts'
import { createdApiKey, listedKey } from './routes.ts'

/** Of everything that restricts a key. */
export const restrictionBasis = chosen(173)
export const rotationBasis = chosen(174)
const leakBasis = chosen(177)

/** Not every text of this pattern is a network: no pattern says what an IPv6 address is. */
const network = Type.String({
  maxLength: 50,
  pattern: '^[0-9A-Fa-f:.]+(/[0-9]{1,3})?$',
  description: 'A CIDR or an address.',
  examples: ['203.0.113.0/24'],
})

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
    Type.Array(network, {
      minItems: 1,
      maxItems: 100,
      uniqueItems: true,
      description: 'The only networks that requests with the key may come from. Null: all.',
    }),
  ),
  expires_at: nullable(timestamp('From then on the key is revoked. Null: it does not expire.')),
})

const name = () => label('A label for people.', 'ci')
const optionalLimits = () => Type.Partial(Type.Object(limits())).properties

export const newRestrictedKey = component('NewRestrictedApiKey', restrictionBasis, {
  name: name(),
  ...optionalLimits(),
  preset: Type.Optional(
    Type.Enum(Object.keys(permissionPresets) as (keyof typeof permissionPresets)[], {
      description:
        'In place of `permissions`: `read_only`, `webhooks` (webhooks and deliveries) or `databases` (databases, backups and restores). The key stores the permissions.',
    }),
  ),
})

export const keyChanges = component('ApiKeyUpdate', restrictionBasis, {
  name: Type.Optional(name()),
  ...optionalLimits(),
})

export const createdRestrictedKey = component('CreatedRestrictedApiKey', restrictionBasis, {
  ...createdApiKey.properties,
  // A repetition with the same Idempotency-Key does not show the key.
  api_key: Type.Optional(createdApiKey.properties.api_key),
})

export const keyDetails = component('ApiKeyDetails', restrictionBasis, {
  ...listedKey(),
  ...limits(),
  expired: Type.Boolean({ description: 'Whether `status` is `revoked` because the key has expired.' }),
  refused: closed(
    {
      count: Type.Integer({ minimum: 0, description: 'Requests that came from another network.' }),
      last_at: nullable(timestamp('The last of them.')),
      last_address: nullable(Type.String({ description: 'Where it came from.', examples: ['198.51.100.7'] })),
    },
    { description: 'Requests that were refused because of their address, up to a few seconds behind.' },
  ),
  leaked_at: mark(
    leakBasis,
    nullable(timestamp('When the key was reported as leaked, which revoked it with its descendants.')),
  ),
  leaked_url: mark(
    leakBasis,
    nullable(
      Type.String({
        description: 'Where it was found, as the reporter wrote it: any text. Null if that is not known.',
        examples: ['https://github.com/octocat/Hello-World/blob/main/deploy.sh'],
      }),
    ),
  ),
})

export const keyDetailsQuery = closed({
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
})

export const keyLifetimeSettings = component('KeyLifetime', restrictionBasis, {
  days_max: nullable(
    Type.Integer({
      minimum: 1,
      maximum: 3_650,
      description: 'Days that a new key lasts at most. Null: as the operator has set it.',
      examples: [90],
    }),
  ),
})

export const keyLifetime = component('EffectiveKeyLifetime', restrictionBasis, {
  ...keyLifetimeSettings.properties,
  operator_days_max: nullable(
    Type.Integer({ minimum: 1, description: 'The limit of the operator. The lower one counts.', examples: [365] }),
  ),
})

export const newRotation = component('NewKeyRotation', rotationBasis, {
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
})
