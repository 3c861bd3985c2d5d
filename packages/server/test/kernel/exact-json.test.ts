import fc from 'fast-check'
import { expect, test } from 'vitest'
import { parseExactly } from '../../src/kernel/exact-json.ts'

const again = (text: string) => JSON.stringify(parseExactly(text))

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
])('%s is written again as it was', (text) => {
  expect(again(text)).toBe(text)
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

// Seen to fail where small fractions are left to JavaScript.
test('whatever number it is, it is written again as it was, alone and among others', () => {
  fc.assert(
    fc.property(number, fc.array(number, { maxLength: 3 }), (one, others) => {
      expect(again(one)).toBe(one)
      const all = `[${[one, ...others].join()}]`
      expect(again(all)).toBe(all)
    }),
    { numRuns: 2_000 },
  )
})

test.each(['0.30000000000000004', '-1.5', '1234567890123456', '5e-324', '"1.0"'])(
  '%s is what JavaScript makes of it',
  (text) => {
    expect(parseExactly(text)).toBe(JSON.parse(text))
  },
)

// Seconds, while comparing numbers took time by the square of their length.
test('a number of a million digits is read at once', () => {
  const text = `1${'0'.repeat(1_000_000)}1`
  expect(again(text)).toBe(text)
})

test('whatever JSON it is, without such numbers it is what JavaScript reads', () => {
  fc.assert(
    fc.property(fc.json(), (text) => {
      // Every number as JavaScript itself writes it.
      const written = JSON.stringify(JSON.parse(text))
      expect(parseExactly(written)).toEqual(JSON.parse(written))
    }),
  )
})

test('what is not JSON is refused as JavaScript refuses it', () => {
  for (const text of ['{"a":12345678901234567890', '-01', '']) expect(() => parseExactly(text)).toThrow(SyntaxError)
})
