import { expect, test } from 'vitest'
import { allowsAddress, readRestrictions } from '../../src/access/restrictions.ts'

const textOf = (networks: readonly string[]) => JSON.stringify({ networks })

test('the same text is parsed once, and an organization with many long texts does not fill the memory', () => {
  const text = textOf(['192.0.2.0/24'])
  const restrictions = readRestrictions(text)
  expect(readRestrictions(text)).toBe(restrictions)
  const long = Array.from({ length: 100 }, (_, i) => `2001:db8:aaaa:bbbb:cccc:dddd:eeee:${i}/128`)
  for (let key = 0; key < 1_000; key++)
    readRestrictions(textOf([`198.51.100.${key % 256}/32`, `10.0.0.0/${8 + (key >> 8)}`, ...long]))
  expect(readRestrictions(text)).not.toBe(restrictions)
})

test('an address is compared with networks of its family, and an IPv4 address in its IPv6 form counts as IPv4', () => {
  const allows = (address: string, ...networks: string[]) => allowsAddress({ networks }, address)
  expect(allows('192.0.2.7', '192.0.2.0/24', '2001:db8::/32')).toBe(true)
  expect(allows('::ffff:192.0.2.7', '192.0.2.0/24')).toBe(true)
  expect(allows('2001:db8::1', '192.0.2.0/24', '2001:db8::/32')).toBe(true)
  expect(allows('192.0.3.7', '192.0.2.0/24')).toBe(false)
  expect(allows('192.0.2.7', '::/0')).toBe(false)
  expect(allows('unknown', '0.0.0.0/0', '::/0')).toBe(false)
})
