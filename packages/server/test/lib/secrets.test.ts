import { crc32 } from 'node:zlib'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { hashApiKey, isApiKey, keyTagShape, mintApiKey } from '../../src/lib/secrets.ts'

const base62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

/** The checksum, computed independently: six base62 digits, most significant first. */
const checksum = (text: string): string => {
  let value = BigInt(crc32(text))
  let digits = ''
  while (digits.length < 6) {
    digits = base62[Number(value % 62n)]! + digits
    value /= 62n
  }
  return digits
}

test('a minted key is <tag>_<8>_<32> in base62 with the CRC-32 of the rest in the last six', () => {
  fc.assert(
    fc.property(fc.stringMatching(/^[a-z][a-z0-9]{0,9}$/), (tag) => {
      const { apiKey, keyPrefix, hash } = mintApiKey(tag)
      expect(apiKey).toMatch(new RegExp(`^${tag}_[0-9A-Za-z]{8}_[0-9A-Za-z]{32}$`))
      expect(apiKey.startsWith(`${keyPrefix}_`)).toBe(true)
      expect(apiKey.slice(-6)).toBe(checksum(apiKey.slice(0, -6)))
      expect(isApiKey(apiKey)).toBe(true)
      expect(hash).toEqual(hashApiKey(apiKey))
    }),
  )
})

test.each([
  ['123456789', 0xcbf43926],
  ['', 0],
  ['The quick brown fox jumps over the lazy dog', 0x414fa339],
])('CRC-32 of "%s" is the published value', (text, expected) => {
  expect(crc32(text)).toBe(expected)
})

/** Computed with Python's zlib: issued keys must stay valid. */
test('a key of an earlier version is still valid', () => {
  expect(isApiKey('kh_AbCdEf12_000000000000000000000000000ONdFw')).toBe(true)
})

test('a key with one character changed, dropped, doubled or swapped is rejected', () => {
  const position = fc.nat({ max: 43 })
  fc.assert(
    fc.property(position, fc.constantFrom(...base62, '_', '-', 'é', '\0'), (at, character) => {
      const { apiKey } = mintApiKey('kh')
      const altered = [
        apiKey.slice(0, at) + character + apiKey.slice(at + 1),
        apiKey.slice(0, at) + apiKey.slice(at + 1),
        apiKey.slice(0, at) + apiKey[at] + apiKey.slice(at),
        apiKey.slice(0, at) + (apiKey[at + 1] ?? '') + apiKey[at] + apiKey.slice(at + 2),
      ]
      for (const other of altered) if (other !== apiKey) expect(isApiKey(other)).toBe(false)
    }),
    { numRuns: 2_000 },
  )
})

test('random text and parts of a key are rejected', () => {
  fc.assert(fc.property(fc.string(), (text) => !isApiKey(text)))
  const { apiKey } = mintApiKey('kh')
  for (const part of ['', 'kh', apiKey.slice(0, 11), apiKey.slice(12), ` ${apiKey}`, `${apiKey}\n`]) {
    expect(isApiKey(part)).toBe(false)
  }
})

test('every character of the alphabet is about equally frequent', () => {
  const counts = new Map<string, number>()
  for (let i = 0; i < 2_000; i++) {
    for (const character of mintApiKey('kh').apiKey.slice(12, -6))
      counts.set(character, (counts.get(character) ?? 0) + 1)
  }
  const mean = (2_000 * 26) / 62
  expect(counts.size).toBe(62)
  for (const count of counts.values()) expect(Math.abs(count - mean)).toBeLessThan(mean * 0.25)
})

test('a tag has lower-case letters and digits only', () => {
  for (const tag of ['kh', 'a', 'k9', 'abcdefghij']) expect(keyTagShape.test(tag)).toBe(true)
  for (const tag of ['', 'k_h', 'KH', '9k', 'abcdefghijk', 'k-h', 'kh\n']) expect(keyTagShape.test(tag)).toBe(false)
})
