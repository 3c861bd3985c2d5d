import type { Api, CreationOptions, ListOptions, OrganizationOptions, SecretCreation } from '../api.ts'
import type { List } from '../list.ts'

export type NewApiKey = { name: string }

/** `api_key` is shown here and never again. */
export type CreatedApiKey = { id: string; name: string; key_prefix: string; api_key: string }

export type ApiKey = {
  id: string
  name: string
  key_prefix: string
  status: 'active' | 'revoked'
  created_by: string
  /** The key that created it; null for a key created with a login token. */
  created_by_key: string | null
  /** Whether the user it acts as has left the organization; it is refused then. */
  creator_left: boolean
  created_at: string
  last_used_at: string | null
}

/** A permission of a key. With `:own` at its end it covers only what the user of the key created. */
export type KeyPermission =
  | 'organizations:read'
  | 'organizations:update'
  | 'members:read'
  | 'keys:create'
  | 'keys:create:own'
  | 'keys:read'
  | 'keys:read:own'
  | 'keys:update'
  | 'keys:update:own'
  | 'keys:revoke'
  | 'keys:revoke:own'
  | 'webhooks:create'
  | 'webhooks:read'
  | 'webhooks:update'
  | 'webhooks:delete'
  | 'events:read'
  | 'deliveries:read'
  | 'deliveries:send'
  | 'databases:create'
  | 'databases:read'
  | 'databases:delete'
  | 'backups:create'
  | 'backups:read'
  | 'backups:delete'
  | 'backups:restore'
  | 'invoices:read'
  | 'audit:read'

/** What a key is limited to, besides the role of its user. Null: this limits nothing. */
export type KeyRestrictions = {
  permissions: KeyPermission[] | null
  /** The only databases that it reaches, with their backups and events. */
  databases: string[] | null
  /** CIDRs, and addresses. */
  allowed_networks: string[] | null
  /** From then on the key is revoked. */
  expires_at: string | null
}

/** A restriction that is absent is that of the key which makes the request; with a login token there is none then. */
export type NewRestrictedApiKey = Partial<KeyRestrictions> & {
  name: string
  /** In place of `permissions`. The key stores the permissions. */
  preset?: 'read_only' | 'webhooks' | 'databases'
}

export type ApiKeyDetails = ApiKey &
  KeyRestrictions & {
    /** Whether `status` is `revoked` because the key has expired. */
    expired: boolean
    /** Requests that came from another network. */
    refused: { count: number; last_at: string | null; last_address: string | null }
    /** When it was reported as leaked, which revoked it; null: it was not. */
    leaked_at: string | null
    /** Where it was found, as the reporter wrote it: any text. */
    leaked_url: string | null
  }

/** What is absent stays as it is. */
export type ApiKeyChanges = Partial<KeyRestrictions> & { name?: string }

/** `overlap_seconds`: how long the old key stays valid; an hour by default, 0 for not at all. */
export type NewKeyRotation = { overlap_seconds?: number; expires_at?: string | null }

/** The most days that a new key lasts. The lower one counts; null: no limit. */
export type KeyLifetime = { days_max: number | null; operator_days_max: number | null }

export type RepeatedApiKey = Omit<CreatedApiKey, 'api_key'> & { api_key?: string }

export type RevokedKeys = { revoked: string[] }

export const keys = (api: Api) => ({
  /** Never repeated by itself: when the answer is lost, revoke the key that you find in the list, and create another. */
  create: async (key: NewApiKey, options: OrganizationOptions = {}): Promise<CreatedApiKey> =>
    api.change('POST', api.published(options, 'api-keys'), key, options),

  /** Active keys, newest first; with `status` others too. */
  list: ({ status, ...options }: ListOptions & { status?: 'active' | 'revoked' | 'all' } = {}): List<ApiKey> =>
    api.list(api.published(options, 'api-keys'), options, { status }),

  /** A key that may do less than the caller. Never repeated by itself, because its answer shows the key. */
  createRestricted: (async (key: NewRestrictedApiKey, options: CreationOptions = {}) =>
    api.createSecret(api.platform(options, 'api-keys'), key, options)) as SecretCreation<
    [key: NewRestrictedApiKey],
    OrganizationOptions,
    CreatedApiKey,
    RepeatedApiKey
  >,

  /** The same list with what restricts each key; with `unusedDays`, keys neither created nor used within so many days. */
  details: ({
    status,
    unusedDays,
    ...options
  }: ListOptions & {
    status?: 'active' | 'revoked' | 'all'
    unusedDays?: number | undefined
  } = {}): List<ApiKeyDetails> =>
    api.list(api.platform(options, 'api-keys'), options, { status, unused_days: unusedDays }),

  get: async (id: string, options: OrganizationOptions = {}): Promise<ApiKeyDetails> =>
    api.get(api.platform(options, 'api-keys', id), options),

  /** Renames it, or allows it less. Allowing it more takes a login token of its user. */
  update: async (id: string, changes: ApiKeyChanges, options: OrganizationOptions = {}): Promise<ApiKeyDetails> =>
    api.change('PATCH', api.platform(options, 'api-keys', id), changes, options),

  /** A new key with the same name and restrictions. Never repeated by itself, because its answer shows the key. */
  rotate: (async (id: string, rotation: NewKeyRotation = {}, options: CreationOptions = {}) =>
    api.createSecret(api.platform(options, 'api-keys', id, 'rotate'), rotation, options)) as SecretCreation<
    [id: string, rotation?: NewKeyRotation],
    OrganizationOptions,
    CreatedApiKey,
    RepeatedApiKey
  >,

  lifetime: async (options: OrganizationOptions = {}): Promise<KeyLifetime> =>
    api.get(api.platform(options, 'key-lifetime'), options),

  /** For keys that are created from now on. Only owners may, with a login token. */
  setLifetime: async (
    lifetime: Pick<KeyLifetime, 'days_max'>,
    options: OrganizationOptions = {},
  ): Promise<KeyLifetime> => api.change('PUT', api.platform(options, 'key-lifetime'), lifetime, options),

  /** The key is refused from now on. */
  revoke: async (id: string, options: OrganizationOptions = {}): Promise<void> =>
    api.erase(api.published(options, 'api-keys', id), options),

  /** Revokes the key, all keys that were created with it, and so on, in one transaction. For a key that has leaked. */
  revokeWithDescendants: async (id: string, options: OrganizationOptions = {}): Promise<RevokedKeys> =>
    api.change('POST', api.platform(options, 'api-keys', id, 'revoke'), undefined, options),
})
