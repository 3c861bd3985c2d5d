import { createHmac, randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { createMac } from '../../src/kernel/mac.ts'

const lengths = [0, 1, 31, 32, 63, 64, 65, 300, 4_000, 4_096, 100_000]
const texts = ['', 'evt_01h455vb4pex5vsknk084sn02q.1750000000.', 'ümläut €']

test('is what node:crypto computes, for keys and messages shorter and longer than a block, and one after the other', () => {
  for (const keyBytes of [0, 1, 32, 63, 64, 65, 200]) {
    const key = randomBytes(keyBytes)
    const mac = createMac(key)
    for (const length of [...lengths, ...lengths.toReversed()]) {
      const bytes = randomBytes(length)
      for (const text of texts) {
        for (const encoding of ['hex', 'base64'] as const) {
          const expected = createHmac('sha256', key).update(text).update(bytes).digest(encoding)
          expect(mac(text, bytes, encoding)).toBe(expected)
        }
      }
    }
  }
})
