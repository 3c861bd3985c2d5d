import type { KeyPermission } from '@keyhook/client'

/** Each permission as a verb and what it is about. */
export const permissionWords: Record<KeyPermission, readonly [verb: string, noun: string]> = {
  'webhooks:read': ['read', 'webhooks'],
  'webhooks:create': ['create', 'webhooks'],
  'webhooks:update': ['change', 'webhooks'],
  'webhooks:delete': ['delete', 'webhooks'],
  'deliveries:read': ['read', 'deliveries'],
  'deliveries:send': ['send', 'test events and redeliveries'],
  'events:read': ['read', 'events'],
  'databases:read': ['read', 'databases'],
  'databases:create': ['create', 'databases'],
  'databases:delete': ['delete', 'databases'],
  'backups:read': ['read', 'backups'],
  'backups:create': ['create', 'backups'],
  'backups:delete': ['delete', 'backups'],
  'backups:restore': ['restore', 'backups'],
  'keys:read': ['read', 'API keys'],
  'keys:read:own': ['read', 'API keys of its user'],
  'keys:create': ['create', 'API keys'],
  'keys:create:own': ['create', 'API keys of its user'],
  'keys:update': ['change', 'API keys'],
  'keys:update:own': ['change', 'API keys of its user'],
  'keys:revoke': ['revoke', 'API keys'],
  'keys:revoke:own': ['revoke', 'API keys of its user'],
  'organizations:read': ['read', 'the name of the organization'],
  'organizations:update': ['rename', 'the organization'],
  'members:read': ['read', 'members'],
  'invoices:read': ['read', 'invoices'],
  'audit:read': ['read', 'the audit log'],
}

const all = Object.keys(permissionWords) as KeyPermission[]
const named = (...subjects: string[]) => all.filter((one) => subjects.includes(one.split(':')[0]!))

export const permissionGroups = {
  'Webhooks and deliveries': named('webhooks', 'deliveries', 'events'),
  'Databases and backups': named('databases', 'backups'),
  'API keys': named('keys'),
  Organization: named('organizations', 'members', 'invoices', 'audit'),
}

/** Those of the server, which stores the permissions and not the name. */
export const presets = {
  read_only: all.filter((one) => one.endsWith(':read')),
  webhooks: ['organizations:read', 'events:read', ...named('webhooks', 'deliveries')],
  databases: ['organizations:read', 'events:read', ...named('databases', 'backups')],
} satisfies Record<string, KeyPermission[]>

type Preset = keyof typeof presets

export const inOrder = (permissions: readonly KeyPermission[]) => all.filter((one) => permissions.includes(one))

/** What the form calls the permissions of a key. */
export type Scope = 'role' | Preset | 'choose'

export function scopeOf(permissions: KeyPermission[] | null): Scope {
  if (permissions === null) return 'role'
  const names = Object.keys(presets) as Preset[]
  const given = inOrder(permissions).join()
  return names.find((name) => inOrder(presets[name]).join() === given) ?? 'choose'
}

/** What a key that is limited to some databases can do at most. */
export const databasePermissions: readonly KeyPermission[] = [
  'databases:read',
  'databases:delete',
  'backups:read',
  'backups:create',
  'backups:delete',
  'events:read',
]
