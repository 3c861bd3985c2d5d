import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createMasterKeys, UnknownMasterKey } from '../../src/lib/master-keys.ts'

const one = randomBytes(32)
const two = randomBytes(32)

test('what is sealed opens with the same key and context, whatever it is', () => {
  const keys = createMasterKeys([one])
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), fc.string(), (secret, context) => {
      expect(keys.open(keys.seal(secret, context), context)).toBe(secret)
    }),
  )
})

test('the same secret is sealed differently every time, and not readable in the box', () => {
  const keys = createMasterKeys([one])
  const boxes = Array.from({ length: 100 }, () => keys.seal('whsec_secret', 'wh_1').box)
  expect(new Set(boxes.map((box) => box.toString('hex'))).size).toBe(100)
  expect(new Set(boxes.map((box) => box.subarray(0, 12).toString('hex'))).size).toBe(100)
  for (const box of boxes) expect(box.includes('whsec_secret')).toBe(false)
})

test('a box does not open in another context, with a bit changed, truncated or under another key', () => {
  const keys = createMasterKeys([one])
  const sealed = keys.seal('whsec_secret', 'wh_1')
  expect(() => keys.open(sealed, 'wh_2')).toThrow()
  for (let i = 0; i < sealed.box.length; i++) {
    const box = Buffer.from(sealed.box)
    box[i]! ^= 1
    expect(() => keys.open({ ...sealed, box }, 'wh_1')).toThrow()
    expect(() => keys.open({ ...sealed, box: sealed.box.subarray(0, i) }, 'wh_1')).toThrow()
  }
  const others = createMasterKeys([two])
  expect(() => others.open(sealed, 'wh_1')).toThrow(UnknownMasterKey)
  expect(() => others.open({ ...sealed, keyId: others.currentKeyId }, 'wh_1')).toThrow()
})

test('a new key in front seals, and the old one behind it still opens', () => {
  const old = createMasterKeys([one])
  const both = createMasterKeys([two, one])
  const after = createMasterKeys([two])
  const sealedBefore = old.seal('secret', 'c')
  const sealedNow = both.seal('secret', 'c')
  expect(both.open(sealedBefore, 'c')).toBe('secret')
  expect(sealedNow.keyId).toBe(after.currentKeyId)
  expect(after.open(sealedNow, 'c')).toBe('secret')
  expect(() => after.open(sealedBefore, 'c')).toThrow(UnknownMasterKey)
})

test('keys for other purposes differ by purpose and by master key, and none is the master key', () => {
  const derived = ['a', 'b'].flatMap((purpose) => createMasterKeys([one, two]).derive(purpose))
  const all = [one, two, ...derived].map((key) => key.toString('hex'))
  expect(new Set(all).size).toBe(6)
  expect(createMasterKeys([one]).derive('a')[0]).toEqual(derived[0])
})

test('a key of any other length is refused', () => {
  for (const length of [0, 16, 31, 33]) expect(() => createMasterKeys([Buffer.alloc(length)])).toThrow(/32 bytes/)
})
