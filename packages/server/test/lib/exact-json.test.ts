import fc from 'fast-check'
import { expect, test } from 'vitest'
import { parseExactly } from '../../src/lib/json.ts'

const rewrite = (text: string) => JSON.stringify(parseExactly(text))

test.each([
  '12345678901234567890',
  '1e400',
  '-1e400',
  '1e-400',
  '-0',
  '-0.0',
  '0.1000000000000000055511151231257827',
  '123456789012345.678901',
  '[9007199254740993,{"a":{"b":9007199254740993}}]',
  '1.0',
  '[1.10,2.5,0.0]',
  '1e2',
  '1E+2',
  '0e999',
  '100000000000000000000',
  '0.0000001',
  '-0.00000015',
  '[12.0000001,0.000001]',
])('%s is written exactly as it was read', (text) => {
  expect(rewrite(text)).toBe(text)
})

const digits = (max: number) => fc.stringMatching(new RegExp(`^\\d{1,${max}}$`))
const number = fc
  .tuple(
    fc.constantFrom('', '-'),
    fc.oneof(fc.constant('0'), fc.stringMatching(/^[1-9]\d{0,24}$/)),
    fc.option(
      fc.oneof(
        digits(24),
        digits(4).map((end) => `00000${end}`),
      ),
      { nil: null },
    ),
    fc.option(fc.tuple(fc.constantFrom('e', 'E', 'e-', 'E+'), digits(3)), { nil: null }),
  )
  .map(([sign, whole, fraction, exponent]) =>
    [sign, whole, fraction === null ? '' : `.${fraction}`, ...(exponent ?? [])].join(''),
  )

test('any number is written exactly as it was read, alone and in a list', () => {
  fc.assert(
    fc.property(number, fc.array(number, { maxLength: 3 }), (one, others) => {
      expect(rewrite(one)).toBe(one)
      const all = `[${[one, ...others].join()}]`
      expect(rewrite(all)).toBe(all)
    }),
    { numRuns: 2_000 },
  )
})

test.each(['0.30000000000000004', '-1.5', '1234567890123456', '5e-324', '"1.0"'])(
  '%s is read as a plain value',
  (text) => {
    expect(parseExactly(text)).toBe(JSON.parse(text))
  },
)

// Comparing as BigInt took seconds, because its time grows with the square of the length.
test('a number of a million digits is read exactly', () => {
  const text = `1${'0'.repeat(1_000_000)}1`
  expect(rewrite(text)).toBe(text)
})

test('any JSON without such numbers is read as JSON.parse does', () => {
  fc.assert(
    fc.property(fc.json(), (text) => {
      // With every number as JavaScript writes it.
      const written = JSON.stringify(JSON.parse(text))
      expect(parseExactly(written)).toEqual(JSON.parse(written))
    }),
  )
})

test('invalid JSON is rejected with a SyntaxError', () => {
  for (const text of ['{"a":12345678901234567890', '-01', '']) expect(() => parseExactly(text)).toThrow(SyntaxError)
})
