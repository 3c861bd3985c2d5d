import type { MemberRole } from '@keyhook/client'
import type { UseFormRegisterReturn } from 'react-hook-form'
import { roleNames, roleTexts } from './roles.ts'

/** What a new member may do. */
export const RoleField = ({
  roles,
  registration,
}: {
  roles: readonly MemberRole[]
  registration: UseFormRegisterReturn
}) => (
  <fieldset className="field">
    <legend>Role</legend>
    <div>
      {roles.map((role) => (
        <label key={role} className="choice">
          <input type="radio" value={role} {...registration} />
          <span>{roleNames[role]}</span>
          <span>{roleTexts[role]}</span>
        </label>
      ))}
    </div>
  </fieldset>
)
