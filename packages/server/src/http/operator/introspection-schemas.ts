import Type from 'typebox'
import { permissions, roles } from '../../domain/roles.ts'
import { chosen } from '../basis.ts'
import { id } from '../schemas.ts'

/** Decision of every field here. */
export const introspected = chosen(94)
const here = introspected

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

export const oneToken = Type.Object(
  {
    token: token(),
    organization_id: organizationId(),
    token_type_hint: Type.Optional(
      Type.String({ maxLength: 100, description: 'Of RFC 7662; makes no difference here.' }),
    ),
  },
  { $id: 'IntrospectionRequest', additionalProperties: false, ...here },
)

export const manyTokens = Type.Object(
  {
    tokens: Type.Array(token(), { minItems: 1, maxItems: tokensMax, description: 'They are answered in this order.' }),
    organization_id: organizationId(),
  },
  { $id: 'IntrospectionBatch', additionalProperties: false, ...here },
)

const role = (description: string) => Type.Enum([...roles], { description })

export const introspection = Type.Object(
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
        description: 'What the role may do; with `:own` at the end, only with what the same user created.',
      }),
    ),
    key_id: Type.Optional(id('key', 'The `id` of the key.')),
    exp: Type.Optional(
      Type.Integer({ description: 'When a login token ends, in seconds since 1970. Keys do not expire.' }),
    ),
    organizations: Type.Optional(
      Type.Array(
        Type.Object(
          { id: id('org', 'The organization.'), role: role('The role there.') },
          { additionalProperties: false },
        ),
        {
          description: 'For a login token if no organization was named: those of the user, newest first, at most 100.',
        },
      ),
    ),
  },
  { $id: 'Introspection', additionalProperties: false, ...here },
)

export const authorizationQuery = Type.Object(
  {
    organization_id: organizationId(),
    permission: Type.Optional(Type.Enum([...permissions], { description: 'A permission that the role must have.' })),
  },
  { additionalProperties: false },
)
