import Type from 'typebox'
import { permissions, roles } from '../access/roles.ts'
import { chosen } from '../http/basis.ts'
import { closed, component, exampleId, id } from '../http/schemas.ts'

export const introspected = chosen(94)

/** As long as a header line may be. */
const tokenCharsMax = 16 * 1024
export const tokensMax = 1_000

const token = () =>
  Type.String({
    maxLength: tokenCharsMax,
    examples: ['kh_Example1_ExampleExampleExampleExample0000'],
    description: 'What your caller sent after `Authorization: Bearer`.',
  })

const organizationId = () =>
  Type.Optional(id('org', 'The organization that the request is about. A token that does not reach it is not active.'))

const address = () =>
  Type.Optional(
    Type.String({
      maxLength: 50,
      pattern: '^[0-9A-Fa-f:.]+$',
      description:
        'The address that the request came from. A key that is limited to networks without it is not active. If it is absent, networks are not checked, and the answer says so.',
      examples: ['203.0.113.7'],
    }),
  )

export const oneToken = component('IntrospectionRequest', introspected, {
  token: token(),
  organization_id: organizationId(),
  address: address(),
  token_type_hint: Type.Optional(
    Type.String({ maxLength: 100, description: 'Of RFC 7662; makes no difference here.' }),
  ),
})

export const manyTokens = component('IntrospectionBatch', introspected, {
  tokens: Type.Array(token(), { minItems: 1, maxItems: tokensMax, description: 'They are answered in this order.' }),
  organization_id: organizationId(),
  address: address(),
})

const role = (description: string) => Type.Enum([...roles], { description })

export const introspection = component(
  'Introspection',
  introspected,
  {
    active: Type.Boolean({ description: 'Whether Keyhook itself would accept the token now.' }),
    token_type: Type.Optional(
      Type.Enum(['api_key', 'login'], { description: 'Which of the two kinds of token it is.' }),
    ),
    sub: Type.Optional(id('usr', 'The user that the token acts as.')),
    organization_id: Type.Optional(
      Type.Union([id('org', 'The organization of the key, or the one that was named.'), Type.Null()], {
        description: 'Null for a login token if none was named.',
      }),
    ),
    role: Type.Optional(
      Type.Union([role('The role of the user in it, now.'), Type.Null()], { description: 'Null like it.' }),
    ),
    permissions: Type.Optional(
      Type.Array(Type.String(), {
        description:
          'What the token may do: the permissions of the role, and of a restricted key those that the key has too. With `:own` at the end, only with what the same user created.',
      }),
    ),
    scope: Type.Optional(Type.String({ description: 'The same, separated by spaces (RFC 7662).' })),
    databases: Type.Optional(
      Type.Array(id('db', 'A database.'), { description: 'The only databases that the key reaches; absent: all.' }),
    ),
    allowed_networks: Type.Optional(
      Type.Array(Type.String(), { description: 'The only networks that the key may be used from; absent: all.' }),
    ),
    address_checked: Type.Optional(
      Type.Boolean({
        description: 'With `allowed_networks`: false if no `address` was given, so that you have to check it.',
      }),
    ),
    key_id: Type.Optional(id('key', 'The `id` of the key.')),
    exp: Type.Optional(
      Type.Integer({
        description: 'When the token ends, in seconds since 1970; absent for a key that does not expire.',
      }),
    ),
    organizations: Type.Optional(
      Type.Array(closed({ id: id('org', 'The organization.'), role: role('The role there.') }), {
        description: 'For a login token if no organization was named: those of the user, newest first, at most 100.',
      }),
    ),
  },
  {
    examples: [
      {
        active: true,
        token_type: 'api_key',
        sub: exampleId('usr'),
        organization_id: exampleId('org'),
        role: 'member',
        permissions: ['organizations:read', 'keys:create:own', 'webhooks:read'],
        scope: 'organizations:read keys:create:own webhooks:read',
        key_id: exampleId('key'),
      },
    ],
  },
)

export const authorizationQuery = closed({
  organization_id: organizationId(),
  address: address(),
  database_id: Type.Optional(
    id('db', 'The database that the request is about. A key that is limited to others is refused.'),
  ),
  permission: Type.Optional(
    Type.Enum([...permissions], {
      description:
        'A permission that the token must have. A key that is limited to some permissions or databases is refused without it.',
    }),
  ),
})
