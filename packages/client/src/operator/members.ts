import { type Api, pathOf } from '../api.ts'
import type { List, PageOptions } from '../list.ts'
import type { CallOptions } from '../transport.ts'

export type Role = 'owner' | 'admin' | 'member'
export type Member = { organization_id: string; user_id: string; role: Role }
export type NewMember = { role: Role }

type MemberListOptions = CallOptions & PageOptions & { organizationId?: string; userId?: string }

const path = '/operator/v1/members'

export const members = (api: Api) => ({
  /** The members of an organization, or the organizations of a user. */
  list: ({ organizationId, userId, ...options }: MemberListOptions = {}): List<Member> =>
    api.list(path, options, { organization_id: organizationId, user_id: userId }),

  /** Adds the user, or changes the role. */
  set: async (organizationId: string, userId: string, member: NewMember, options: CallOptions = {}): Promise<Member> =>
    api.change('PUT', pathOf(path, organizationId, userId), member, options),

  /** `revokeKeys`: the keys of the user stay refused, also if the user becomes a member again. */
  remove: async (
    organizationId: string,
    userId: string,
    { revokeKeys, ...options }: CallOptions & { revokeKeys?: boolean } = {},
  ): Promise<void> => api.erase(pathOf(path, organizationId, userId), options, { revoke_keys: revokeKeys }),
})
