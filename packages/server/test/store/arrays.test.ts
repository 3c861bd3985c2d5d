import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { plainArray, textArray } from '../../src/store/delivery/arrays.ts'
import { startApi, type TestApi } from '../support/installation.ts'

let api: TestApi
beforeAll(async () => {
  api = await startApi()
})
afterAll(() => api.close())

/** PostgreSQL's text holds everything but NUL and halves of characters. */
const text = fc.oneof(
  fc.string({ unit: 'binary' }).filter((one) => !one.includes('\0') && one.isWellFormed()),
  fc.constantFrom('', 'null', 'NULL', '{}', '"', '\\', '\\"', ',', ' ', '{a,"b"}', '\n', '\x1f', '\x1e', 'a\x1fb'),
)

// As JSON: the driver reads NULL in an array as a text.
test('PostgreSQL reads the texts that were written, whatever they hold', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.option(text), { maxLength: 12 }), async (texts) => {
      const [row] = await api.db`select to_json(${textArray(api.db, texts)}) as texts`
      expect(row!.texts).toEqual(texts)
    }),
    { numRuns: 200 },
  )
})

test('and the numbers and ids', async () => {
  const [row] = await api.db`
    select to_json(${plainArray([1, null, -3])}::int[]) as numbers, to_json(${plainArray(['org_1', null])}::text[]) as ids,
      to_json(${plainArray(['::1', '127.0.0.1'])}::text[]) as addresses, to_json(${plainArray([])}::int[]) as none`
  expect(row).toEqual({ numbers: [1, null, -3], ids: ['org_1', null], addresses: ['::1', '127.0.0.1'], none: [] })
})
