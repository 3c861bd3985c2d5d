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
])('%s is written again as it was', (text) => {
  expect(again(text)).toBe(text)
})

test.each(['1.0', '1e2', '100000000000000000000', '1.50000000000000000000', '0.30000000000000004', '0e999', '1E+2'])(
  '%s is a number like any other',
  (text) => {
    expect(parseExactly(text)).toBe(Number(text))
  },
)

test('whatever JSON it is, without such numbers it is what JavaScript reads', () => {
  fc.assert(
    fc.property(fc.json(), (text) => {
      const text_ = text.replace(/-0(?![.\d])/g, '0')
      expect(parseExactly(text_)).toEqual(JSON.parse(text_))
    }),
  )
})

test('what is not JSON is refused as JavaScript refuses it', () => {
  for (const text of ['{"a":12345678901234567890', '-01', '']) expect(() => parseExactly(text)).toThrow(SyntaxError)
})
