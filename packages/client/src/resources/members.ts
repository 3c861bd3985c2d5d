import type { Api, CreationOptions, ListOptions, OrganizationOptions, SecretCreation } from '../api.ts'
import type { List } from '../list.ts'
import type { CreatedApiKey, NewRestrictedApiKey, RepeatedApiKey } from './keys.ts'

export type MemberRole = 'owner' | 'admin' | 'member'

export type OrganizationMember = {
  user_id: string
  /** Null for a service member. */
  email: string | null
  name: string | null
  /** Whether the address was confirmed: by the operator, an OpenID login, or a link that was mailed there. */
  verified: boolean
  /** Whether it is a service member, which no person can log in as. */
  service: boolean
  role: MemberRole
  created_at: string
}

export type NewServiceMember = { name: string; role: Exclude<MemberRole, 'owner'> }

export type NewRole = { role: MemberRole }

/** `mail`: send the link to the address, and to nobody else. Whoever accepts it has confirmed the address. */
export type NewInvitation = { email: string; role: MemberRole; mail?: boolean }

export type Invitation = {
  id: string
  email: string
  role: MemberRole
  created_by: string
  created_at: string
  expires_at: string
  /** Whether the link was sent to the address. */
  mailed: boolean
}

/**
 * `link` is shown here and never again; not at all if it was mailed. Without a public address of the server it starts with `/console`.
 */
export type CreatedInvitation = Invitation & { link?: string }

export const members = (api: Api) => ({
  list: (options: ListOptions = {}): List<OrganizationMember> => api.list(api.platform(options, 'members'), options),

  update: async (userId: string, changes: NewRole, options: OrganizationOptions = {}): Promise<OrganizationMember> =>
    api.change('PUT', api.platform(options, 'members', userId), changes, options),

  /** `revokeKeys`: the keys of the user stay refused, also if the user becomes a member again. */
  remove: async (
    userId: string,
    { revokeKeys, ...options }: OrganizationOptions & { revokeKeys?: boolean } = {},
  ): Promise<void> => api.erase(api.platform(options, 'members', userId), options, { revoke_keys: revokeKeys }),
})

/** Members without a login, for API keys that outlive a person. Only owners make them and their keys, with a login token. */
export const serviceMembers = (api: Api) => ({
  /** It is listed, changed and removed like any other member. */
  create: async (member: NewServiceMember, options: CreationOptions = {}): Promise<OrganizationMember> =>
    api.create(api.platform(options, 'service-members'), member, options),

  /** A key that acts as it. Never repeated by itself, because its answer shows the key. */
  createKey: (async (userId: string, key: NewRestrictedApiKey, options: CreationOptions = {}) =>
    api.createSecret(api.platform(options, 'service-members', userId, 'api-keys'), key, options)) as SecretCreation<
    [userId: string, key: NewRestrictedApiKey],
    OrganizationOptions,
    CreatedApiKey,
    RepeatedApiKey
  >,
})

export const invitations = (api: Api) => ({
  /** Never repeated by itself: when the answer is lost, withdraw the invitation that you find in the list. */
  create: (async (invitation: NewInvitation, options: CreationOptions = {}) =>
    api.createSecret(api.platform(options, 'invitations'), invitation, options)) as SecretCreation<
    [invitation: NewInvitation],
    OrganizationOptions,
    CreatedInvitation,
    Invitation & { link?: string }
  >,

  /** Those that nobody has accepted yet. */
  list: (options: ListOptions = {}): List<Invitation> => api.list(api.platform(options, 'invitations'), options),

  delete: async (id: string, options: OrganizationOptions = {}): Promise<void> =>
    api.erase(api.platform(options, 'invitations', id), options),
})
