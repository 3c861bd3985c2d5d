import type { MemberRole, OrganizationMember } from '@keyhook/client'
import { Select } from '../../components/select.tsx'
import { roleNames } from './roles.ts'

type Props = { member: OrganizationMember; offered: readonly MemberRole[]; onChange: (role: MemberRole) => unknown }

/** The role, which can be changed if others are offered. */
export function RoleSelect({ member, offered, onChange }: Props) {
  if (offered.length === 0) return roleNames[member.role]
  return (
    <Select
      small
      label={`Role of ${member.email ?? member.name}`}
      options={Object.fromEntries(offered.map((role) => [role, roleNames[role]]))}
      value={member.role}
      onChange={(role) => onChange(role as MemberRole)}
    />
  )
}
