import Type from 'typebox'
import { choice, chosen, mark, specified, withChoices } from '../http/basis.ts'
import { wholeListQuery } from '../http/lists.ts'
import { closed, component, createdAt, id, label, timestamp } from '../http/schemas.ts'

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

export const newApiKey = component('NewApiKey', specified, { name: label('A label for people.', 'ci') })

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

export const apiKeyList = Type.Array(
  component('ApiKey', chosen(9), {
    id: id('key', 'The <api_key_id> of the revoke path.'),
    name: Type.String({ description: 'A label for people.', examples: ['ci'] }),
    key_prefix: mark(specified, keyPrefix()),
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
  }),
)

export const apiKeyQuery = closed({
  ...wholeListQuery,
  status: Type.Optional(
    mark(
      chosen(9),
      Type.Enum(['active', 'revoked', 'all'], { description: 'Which keys to list; active ones when absent.' }),
    ),
  ),
})

/** Of the revocation with descendants. */
export const revocationBasis = chosen(91)

export const newRevocation = component(
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

export const revokedApiKeys = component('RevokedApiKeys', revocationBasis, {
  revoked: Type.Array(id('key', 'A key.'), {
    description: 'The keys that were active until this call, oldest first; none when it is repeated.',
  }),
})
