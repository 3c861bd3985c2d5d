import type { DatabaseId } from '../lib/ids.ts'
import { isInNetworks, isNetworkWithin } from '../lib/network.ts'
import { isRefusedToKeys, type Permission, permissions, permissionTable, type Reach } from './roles.ts'

/** A permission of a key. With `:own` at its end it covers only what the user of the key created. */
export type KeyPermission = Permission | `${Permission}:own`

/** What a key is limited to, besides the role of its user. A part that is absent limits nothing. */
export type Restrictions = {
  permissions?: readonly KeyPermission[]
  databases?: readonly DatabaseId[]
  /** CIDRs. */
  networks?: readonly string[]
}

const parsed = new Map<string, Restrictions>()
let parsedChars = 0
/** Not a number of keys: what one key is restricted to may have 8,000 characters. */
const parsedCharsMax = 4_000_000

/** The same text gives the same object: parsing takes 1 us of a request, and networks are parsed once for each object. */
export function readRestrictions(text: string): Restrictions {
  let restrictions = parsed.get(text)
  if (restrictions === undefined) {
    restrictions = JSON.parse(text) as Restrictions
    parsedChars += text.length
    if (parsedChars > parsedCharsMax) {
      parsed.clear()
      parsedChars = text.length
    }
    parsed.set(text, restrictions)
  }
  return restrictions
}

const mayBeOwn = (permission: Permission): boolean => Object.values<Reach>(permissionTable[permission]).includes('own')

/** All that a key may be limited to. */
export const keyPermissions: readonly KeyPermission[] = permissions
  .filter((permission) => !isRefusedToKeys(permission, { keysRequireLogin: false }))
  .flatMap((permission) => (mayBeOwn(permission) ? [permission, `${permission}:own` as const] : [permission]))

const named = (...prefixes: string[]) =>
  permissions.filter((permission) => prefixes.some((prefix) => permission.startsWith(prefix)))

/** Sets of permissions for common uses. A key stores the permissions and not the name: a set that grows later widens no key. */
export const permissionPresets = {
  read_only: permissions.filter((permission) => permission.endsWith(':read')),
  webhooks: ['organizations:read', ...named('webhooks:', 'deliveries:'), 'events:read'],
  databases: ['organizations:read', ...named('databases:', 'backups:'), 'events:read'],
} as const satisfies Record<string, readonly KeyPermission[]>

const reaches: readonly Reach[] = ['none', 'own', 'all']
const least = (a: Reach, b: Reach): Reach => reaches[Math.min(reaches.indexOf(a), reaches.indexOf(b))]!

const reachIn = (allowed: readonly KeyPermission[] | undefined, permission: Permission): Reach =>
  allowed === undefined || allowed.includes(permission) ? 'all' : allowed.includes(`${permission}:own`) ? 'own' : 'none'

/** What a key can do that is limited to some databases. A restore creates a database, so it is not among them. */
const databasePermissions: readonly Permission[] = [
  'organizations:read',
  'databases:read',
  'databases:delete',
  'backups:create',
  'backups:read',
  'backups:delete',
  'events:read',
]

/** Whether the key may not do this because it is limited to some databases, whatever its permissions. */
export const isBeyondDatabases = (restrictions: Restrictions | null, permission: Permission): boolean =>
  restrictions?.databases !== undefined && !databasePermissions.includes(permission)

/** How far the key lets a permission of its user's role reach. */
export function limitReach(reach: Reach, restrictions: Restrictions | null, permission: Permission): Reach {
  if (restrictions === null) return reach
  if (isBeyondDatabases(restrictions, permission)) return 'none'
  return least(reach, reachIn(restrictions.permissions, permission))
}

/** An address that is not known is in no network. */
export const allowsAddress = ({ networks }: Restrictions, address: string): boolean =>
  networks === undefined || isInNetworks(address, networks)

export type KeyLimits = { restrictions: Restrictions | null; expiresAt: Date | null }

/** The parts in which `inner` allows more than `outer`; none if it allows the same or less. */
export function widerParts(inner: KeyLimits, outer: KeyLimits): string[] {
  const { permissions: may, databases, networks } = inner.restrictions ?? {}
  const limit = outer.restrictions ?? {}
  const isWider = {
    permissions:
      limit.permissions !== undefined &&
      (may ?? permissions).some((one) => {
        const [permission, wanted] = one.endsWith(':own') ? [one.slice(0, -4), 'own' as const] : [one, 'all' as const]
        return least(wanted, reachIn(limit.permissions, permission as Permission)) !== wanted
      }),
    databases: limit.databases !== undefined && (databases?.some((id) => !limit.databases!.includes(id)) ?? true),
    allowed_networks:
      limit.networks !== undefined &&
      (networks?.some((network) => !limit.networks!.some((outside) => isNetworkWithin(network, outside))) ?? true),
    expires_at: outer.expiresAt !== null && (inner.expiresAt === null || inner.expiresAt > outer.expiresAt),
  }
  return Object.entries(isWider).flatMap(([part, wider]) => (wider ? [part] : []))
}
