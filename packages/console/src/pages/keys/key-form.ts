import type { ApiKeyChanges, ApiKeyDetails, KeyPermission, KeyRestrictions } from '@keyhook/client'
import type { CurrentOrganization } from '../../api/organization.ts'
import { defaultExpiry, type Expiry, expiresAt } from './expiry.ts'
import { inOrder, permissionGroups, presets, type Scope, scopeOf } from './permissions.ts'

/** Fields that the server knows have its names, so that its errors appear beside them. */
export type KeyForm = {
  name: string
  scope: Scope
  permissions: KeyPermission[]
  hasDatabases: boolean
  databases: string[]
  allowed_networks: string
  expires_at: Expiry
}

export const newKeyForm = (daysMax: number | null): KeyForm => ({
  name: '',
  scope: 'role',
  permissions: [],
  hasDatabases: false,
  databases: [],
  allowed_networks: '',
  expires_at: defaultExpiry(daysMax),
})

export const formOf = (key: ApiKeyDetails): KeyForm => ({
  name: key.name,
  scope: scopeOf(key.permissions),
  permissions: key.permissions ?? [],
  hasDatabases: key.databases !== null,
  databases: key.databases ?? [],
  allowed_networks: key.allowed_networks?.join('\n') ?? '',
  expires_at: 'keep',
})

/** Networks are separated by commas, spaces or lines. */
export const networksOf = (text: string): string[] => text.split(/[\s,]+/).filter((one) => one !== '')

export function restrictionsOf(form: KeyForm, current?: ApiKeyDetails): KeyRestrictions {
  const networks = networksOf(form.allowed_networks)
  return {
    permissions:
      form.scope === 'role' ? null : inOrder(form.scope === 'choose' ? form.permissions : presets[form.scope]),
    databases: form.hasDatabases ? form.databases : null,
    allowed_networks: networks.length === 0 ? null : networks,
    expires_at: expiresAt(form.expires_at, current?.expires_at),
  }
}

/** What the form changes in the key; nothing where it says the same in another order. */
export function changesOf(form: KeyForm, key: ApiKeyDetails): ApiKeyChanges {
  const next = { name: form.name.trim(), ...restrictionsOf(form, key) }
  const parts = Object.keys(next) as (keyof typeof next)[]
  const text = (value: string | string[] | null) => (Array.isArray(value) ? [...value].sort().join() : value)
  return Object.fromEntries(
    parts.filter((part) => text(next[part]) !== text(key[part])).map((part) => [part, next[part]]),
  )
}

/** What may be chosen: the permissions of the role, and those that the key has already. */
export function offeredPermissions(organization: CurrentOrganization, current: readonly KeyPermission[]) {
  const isOffered = (one: KeyPermission) => current.includes(one) || organization.permissions.includes(one)
  const groups = Object.entries(permissionGroups).map(([name, group]) => ({
    name,
    permissions: group.filter(isOffered),
  }))
  return groups.filter(({ permissions }) => permissions.length > 0)
}

/** A role that may only read webhooks is not offered a key for everything with webhooks. */
export function offeredScopes(organization: CurrentOrganization, current: Scope): Scope[] {
  const scopes: Scope[] = ['role', 'read_only', 'webhooks', 'databases', 'choose']
  return scopes.filter(
    (one) =>
      one === current ||
      (one !== 'webhooks' && one !== 'databases') ||
      presets[one].every((permission) => organization.permissions.includes(permission)),
  )
}
