import type { MemberRole } from '@keyhook/client'

export const roleNames: Record<MemberRole, string> = { owner: 'Owner', admin: 'Admin', member: 'Member' }

export const roleTexts: Record<MemberRole, string> = {
  owner: 'Everything, and gives others any role.',
  admin: 'Manages keys, webhooks, databases and members, but no owners or service members.',
  member: 'Reads, and manages API keys of their own.',
}

/** The roles that somebody with this role may give and take: only owners make owners. */
export const rolesOffered = (own: string): MemberRole[] =>
  own === 'owner' ? ['owner', 'admin', 'member'] : own === 'admin' ? ['admin', 'member'] : []
