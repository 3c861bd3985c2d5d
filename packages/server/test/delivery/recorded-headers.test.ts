import fc from 'fast-check'
import { expect, test } from 'vitest'
import { readHeaders, recordHeaders } from '../../src/delivery/sender/senders.ts'

const name = fc.oneof(fc.stringMatching(/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,20}$/), fc.constant('__proto__'))
/** Any value that is possible on the wire: without line breaks. */
const value = fc.string({ unit: 'binary' }).filter((text) => !/[\r\n\0]/.test(text))

test('recorded headers are read back, repeated ones as a list', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(name, value), { maxLength: 20 }), (pairs) => {
      const read = readHeaders(recordHeaders(pairs.flat()))
      for (const [one] of pairs) {
        const values = pairs.filter(([other]) => other === one).map(([, text]) => text)
        expect(Object.getOwnPropertyDescriptor(read, one)?.value).toEqual(values.length === 1 ? values[0] : values)
      }
      expect(Object.keys(read).length).toBe(new Set(pairs.map(([one]) => one)).size)
    }),
  )
})
