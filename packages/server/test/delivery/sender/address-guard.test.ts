import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createAddressGuard } from '../../../src/delivery/sender/addresses.ts'
import { readNetwork } from '../../../src/lib/network.ts'

const standard = createAddressGuard([])
const allowing = (...cidrs: string[]) => createAddressGuard(cidrs.map((cidr) => readNetwork(cidr)!))

const forbidden = [
  '0.0.0.0',
  '0.1.2.3',
  '10.0.0.1',
  '100.64.0.1',
  '127.0.0.1',
  '127.255.255.254',
  '168.63.129.16',
  '169.254.169.254',
  '172.16.0.1',
  '172.31.255.255',
  '192.0.0.1',
  '192.0.2.1',
  '192.88.99.1',
  '192.168.1.1',
  '198.18.0.1',
  '198.51.100.1',
  '203.0.113.1',
  '224.0.0.1',
  '240.0.0.1',
  '255.255.255.255',
]
const permitted = ['1.1.1.1', '8.8.8.8', '93.184.216.34', '172.32.0.1', '100.128.0.1', '169.253.1.1']

test.each(forbidden)('%s is not allowed', (address) => {
  expect(standard(address)).toBe(false)
})
test.each([...permitted, '2606:4700:4700::1111', '2a00:1450:4001:830::200e'])('%s is allowed', (address) => {
  expect(standard(address)).toBe(true)
})
test.each([
  '::',
  '::1',
  'fe80::1',
  'fe80::1%eth0',
  'fc00::1',
  'fd12:3456::1',
  'fec0::1',
  '200::1',
  '1::1',
  '4000::1',
  '100:0:0:1::1',
  'ff02::1',
  '100::1',
  '2001:db8::1',
  '3fff::1',
  '64:ff9b:1::1',
  'not an address',
  '',
])('%s is not allowed', (address) => {
  expect(standard(address)).toBe(false)
})

const hexOf = (v4: string, flip = 0) => {
  const bytes = v4.split('.').map((byte) => Number(byte) ^ flip)
  const hex = bytes.map((byte) => byte.toString(16).padStart(2, '0'))
  return `${hex[0]}${hex[1]}:${hex[2]}${hex[3]}`
}
const forms: [string, (v4: string) => string][] = [
  ['mapped', (v4) => `::ffff:${v4}`],
  ['mapped, in hexadecimal', (v4) => `::ffff:${hexOf(v4)}`],
  ['compatible', (v4) => `::${hexOf(v4)}`],
  ['translated (SIIT)', (v4) => `::ffff:0:${hexOf(v4)}`],
  ['NAT64', (v4) => `64:ff9b::${hexOf(v4)}`],
  ['6to4', (v4) => `2002:${hexOf(v4)}::1`],
  ['Teredo client', (v4) => `2001:0:101:101:0:0:${hexOf(v4, 0xff)}`],
  ['Teredo server', (v4) => `2001:0:${hexOf(v4)}:0:0:${hexOf('1.1.1.1', 0xff)}`],
]

describe.each(forms)('an IPv4 address in an IPv6 one: %s', (_name, form) => {
  test.each(forbidden.filter((v4) => v4 !== '0.0.0.0'))('%s stays forbidden', (v4) => {
    expect(standard(form(v4))).toBe(false)
  })
  test('no form of any address is allowed unless the address itself is', () => {
    const v4 = fc.tuple(fc.nat(255), fc.nat(255), fc.nat(255), fc.nat(255)).map((bytes) => bytes.join('.'))
    fc.assert(
      fc.property(v4, (address) => {
        if (standard(form(address))) expect(standard(address)).toBe(true)
      }),
      { numRuns: 2_000 },
    )
  })
})

test('a network that the operator allows is allowed in every form, and no other address', () => {
  const guard = allowing('10.1.0.0/16', 'fd00::/8')
  expect(guard('10.1.2.3')).toBe(true)
  expect(guard('::ffff:10.1.2.3')).toBe(true)
  expect(guard('64:ff9b::a01:203')).toBe(true)
  expect(guard('fd00::1')).toBe(true)
  expect(guard('10.2.0.1')).toBe(false)
  expect(guard('::ffff:10.2.0.1')).toBe(false)
  expect(guard('127.0.0.1')).toBe(false)
})

test('allowing a network never forbids an address', () => {
  const guard = allowing('10.0.0.0/8')
  fc.assert(
    fc.property(fc.oneof(fc.ipV4(), fc.ipV6()), (address) => {
      if (standard(address)) expect(guard(address)).toBe(true)
    }),
    { numRuns: 3_000 },
  )
})

test.each([
  '10.0.0.0',
  '10.0.0.0/33',
  'x/8',
  '::/129',
  '',
  '10/8',
  '192.168/16',
  '010.0.0.0/8',
  '10.0.0.0/08',
  'fe80::1%eth0/64',
])('%s is not a network', (text) => {
  expect(readNetwork(text)).toBeNull()
})
