export const roles = ['owner', 'admin', 'member'] as const
export type Role = (typeof roles)[number]
export type Reach = 'all' | 'own' | 'none'

/** A route names the permission it needs; "own" limits it to what the same user created. */
export const permissionTable = {
  'organizations:read': { owner: 'all', admin: 'all', member: 'all' },
  'organizations:update': { owner: 'all', admin: 'none', member: 'none' },
  'organizations:delete': { owner: 'all', admin: 'none', member: 'none' },
  'members:read': { owner: 'all', admin: 'all', member: 'all' },
  'members:manage': { owner: 'all', admin: 'all', member: 'none' },
  'service-members:manage': { owner: 'all', admin: 'none', member: 'none' },
  'keys:create': { owner: 'all', admin: 'all', member: 'own' },
  'keys:read': { owner: 'all', admin: 'all', member: 'own' },
  'keys:update': { owner: 'all', admin: 'all', member: 'own' },
  'keys:limit': { owner: 'all', admin: 'none', member: 'none' },
  'keys:revoke': { owner: 'all', admin: 'all', member: 'own' },
  'webhooks:create': { owner: 'all', admin: 'all', member: 'none' },
  'webhooks:read': { owner: 'all', admin: 'all', member: 'all' },
  'webhooks:update': { owner: 'all', admin: 'all', member: 'none' },
  'webhooks:delete': { owner: 'all', admin: 'all', member: 'none' },
  'events:read': { owner: 'all', admin: 'all', member: 'all' },
  'deliveries:read': { owner: 'all', admin: 'all', member: 'all' },
  'deliveries:send': { owner: 'all', admin: 'all', member: 'none' },
  'databases:create': { owner: 'all', admin: 'all', member: 'none' },
  'databases:read': { owner: 'all', admin: 'all', member: 'all' },
  'databases:delete': { owner: 'all', admin: 'all', member: 'none' },
  'backups:create': { owner: 'all', admin: 'all', member: 'none' },
  'backups:read': { owner: 'all', admin: 'all', member: 'all' },
  'backups:delete': { owner: 'all', admin: 'all', member: 'none' },
  'backups:restore': { owner: 'all', admin: 'all', member: 'none' },
  'invoices:read': { owner: 'all', admin: 'all', member: 'none' },
  'audit:read': { owner: 'all', admin: 'all', member: 'none' },
} as const satisfies Record<string, Record<Role, Reach>>

export type Permission = keyof typeof permissionTable
export const permissions = Object.keys(permissionTable) as Permission[]

export const reachOf = (role: Role, permission: Permission): Reach => permissionTable[permission][role]

const loginOnly: readonly Permission[] = [
  'organizations:delete',
  'members:manage',
  'service-members:manage',
  'keys:limit',
]
const keyManagement: readonly Permission[] = ['keys:create', 'keys:update', 'keys:revoke']

/** What an API key may not do, whatever the role: it takes a login token. */
export const isRefusedToKeys = (permission: Permission, { keysRequireLogin }: { keysRequireLogin: boolean }): boolean =>
  loginOnly.includes(permission) || (keysRequireLogin && keyManagement.includes(permission))

/** What a role may do. A permission that is limited to what the same user created has `:own` at its end. */
export const permissionsOf = (role: Role, limit: (reach: Reach, permission: Permission) => Reach = (reach) => reach) =>
  permissions.flatMap((permission): string[] => {
    const reach = limit(reachOf(role, permission), permission)
    return reach === 'none' ? [] : [reach === 'own' ? `${permission}:own` : permission]
  })

export const isRole = (text: string): text is Role => (roles as readonly string[]).includes(text)
