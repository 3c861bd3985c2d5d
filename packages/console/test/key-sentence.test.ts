import type { KeyPermission } from '@keyhook/client'
import { expect, test } from 'vitest'
import { permissionPresets } from '../../server/src/access/restrictions.ts'
import { isAddress, readNetwork } from '../../server/src/lib/network.ts'
import { isNetwork, keySentence } from '../src/pages/keys/key-sentence.ts'
import { inOrder, presets } from '../src/pages/keys/permissions.ts'

const free = { permissions: null, databases: null, allowed_networks: null, expires_at: null }
const databaseNames = new Map([
  ['db_1', 'orders'],
  ['db_2', 'analytics'],
])
const say = (limits: Partial<Parameters<typeof keySentence>[0]>) =>
  keySentence({ ...free, ...limits }, { databaseNames })

test('a sentence says what a key may do, where and until when', () => {
  expect(say({})).toBe('May do everything that its user may do, until it is revoked.')
  const networks = ['203.0.113.0/24', '198.51.100.7/32', '2001:db8::1/128']
  expect(
    say({
      permissions: ['webhooks:read', 'deliveries:read'],
      allowed_networks: networks,
      expires_at: '2097-02-03T12:00:00Z',
    }),
  ).toBe('May read webhooks and deliveries, from 203.0.113.0/24, 198.51.100.7 or 2001:db8::1, until 3 Feb 2097.')
  expect(say({ permissions: ['webhooks:delete', 'webhooks:read', 'webhooks:create', 'deliveries:send'] })).toBe(
    'May read, create and delete webhooks, and send test events and redeliveries, until it is revoked.',
  )
})

test('a key for some databases is said to do only what it does there', () => {
  expect(say({ databases: ['db_1', 'db_2'] })).toBe(
    'May read databases, backups and events, delete databases and backups, and create backups, only for the databases “orders” and “analytics”, until it is revoked.',
  )
  expect(say({ databases: ['db_3'], permissions: ['webhooks:read'] })).toBe(
    'May do nothing, only for the database “db_3”, until it is revoked.',
  )
})

test('a form that is not complete is not told as a fact', () => {
  expect(say({ permissions: ['databases:read'], databases: [] })).toBe(
    'May read databases, for no database yet (choose at least one), until it is revoked.',
  )
  expect(say({ permissions: ['webhooks:read'], allowed_networks: ['10.0.0.0/8', '300.0.0.1/8'] })).toBe(
    'May read webhooks, from 10.0.0.0/8 or “300.0.0.1/8” (no network), until it is revoked.',
  )
})

test.each([
  '203.0.113.7',
  '0.0.0.0/0',
  '10.1.2.3/8',
  '203.0.113.0/24',
  '::/0',
  '2001:db8::1/128',
  '::ffff:10.0.0.1/104',
  '300.0.0.1/8',
  '10.0.0.0/33',
  '10.0.0.0/08',
  '10/8',
  '10.0.0.010',
  '2001:db8::/129',
  '2001:db8::1::2',
  'somewhere',
])('the form and the server agree whether %s is a network', (text) => {
  expect(isNetwork(text)).toBe(text.includes('/') ? readNetwork(text) !== null : isAddress(text))
})

test('the presets of the form are those of the server', () => {
  for (const [name, permissions] of Object.entries(permissionPresets)) {
    expect(inOrder(presets[name as keyof typeof presets])).toEqual(inOrder(permissions as readonly KeyPermission[]))
  }
  expect(Object.keys(presets)).toEqual(Object.keys(permissionPresets))
})
