import { expect, test } from 'vitest'
import { clientNetwork } from '../../src/lib/network.ts'

test('addresses of one IPv6 client count together, those of IPv4 clients do not', () => {
  expect(clientNetwork('2001:db8::1')).toBe(clientNetwork('2001:db8:0:0:ffff::2'))
  expect(clientNetwork('2001:db8:0:1::1')).not.toBe(clientNetwork('2001:db8::1'))
  expect(clientNetwork('::ffff:192.0.2.1')).toBe(clientNetwork('192.0.2.1'))
  expect(clientNetwork('192.0.2.2')).not.toBe(clientNetwork('192.0.2.1'))
})
