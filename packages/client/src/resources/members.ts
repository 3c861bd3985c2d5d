import type { Api, CreationOptions, ListOptions, OrganizationOptions, SecretCreation } from '../api.ts'
import type { List } from '../list.ts'

export type MemberRole = 'owner' | 'admin' | 'member'

export type OrganizationMember = {
  user_id: string
  email: string
  name: string | null
  /** Whether the operator or an OpenID login has confirmed the address. */
  verified: boolean
  role: MemberRole
  created_at: string
}

export type NewRole = { role: MemberRole }
export type NewInvitation = { email: string; role: MemberRole }

export type Invitation = {
  id: string
  email: string
  role: MemberRole
  created_by: string
  created_at: string
  expires_at: string
}

/** `link` is shown here and never again. Without a public address of the server it starts with `/console`. */
export type CreatedInvitation = Invitation & { link: string }

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
