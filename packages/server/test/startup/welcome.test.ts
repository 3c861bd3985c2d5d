import { randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { newId } from '../../src/lib/ids.ts'
import { readConfig } from '../../src/settings/config.ts'
import { welcome } from '../../src/startup/welcome.ts'

const key = randomBytes(32).toString('base64')
const DATABASE_URL = 'postgres://ada:hunter2@localhost/keyhook'

test.each<[has: string, environment: Record<string, string>, says: RegExp]>([
  ['nothing', {}, /terminal(:|, with the ids)/],
  ['a master key', { KEYHOOK_MASTER_KEY: key }, /terminal, where KEYHOOK_MASTER_KEY is set as here/],
  [
    'a master key and a database',
    { KEYHOOK_MASTER_KEY: key, DATABASE_URL },
    /terminal, where DATABASE_URL and KEYHOOK_MASTER_KEY are set as here/,
  ],
])(
  'with %s in the environment, the text says which secrets the other terminal needs, and shows none',
  (_, environment, says) => {
    const first = { orgId: newId('org'), ownerId: newId('usr'), isNew: true }
    for (const text of [first, null].map((one) =>
      welcome(readConfig(environment), 'http://localhost:8080', one, 'http://localhost:8080/console'),
    )) {
      expect(text).toMatch(says)
      expect(text).not.toContain(key)
      expect(text).not.toContain('hunter2')
    }
  },
)

test('without a console there is no line about it', () => {
  const first = { orgId: newId('org'), ownerId: newId('usr'), isNew: true }
  expect(welcome(readConfig({}), 'http://localhost:8080', first, null)).not.toContain('Console')
})
