import type { OrganizationMember } from '@keyhook/client'
import { useState } from 'react'
import { client, queryClient } from '../../api/client.ts'
import { Confirm } from '../../components/confirm.tsx'
import { showToast } from '../../components/toasts.tsx'

type Props = {
  member: OrganizationMember
  organization: string
  onRemoved: () => Promise<unknown>
  onClose: () => void
}

/** A key that is not revoked works again when its user comes back, so revoking is what is offered first. */
export function RemoveMember({ member, organization, onRemoved, onClose }: Props) {
  const [revokeKeys, setRevokeKeys] = useState(true)
  const name = member.name ?? member.email
  return (
    <Confirm
      title={`Remove ${name}?`}
      description="From now on, this person and the API keys that they created have no access to the organization."
      action="Remove member"
      onConfirm={async () => {
        await client.members.remove(member.user_id, { organization, revokeKeys })
        await Promise.all([onRemoved(), queryClient.invalidateQueries({ queryKey: [organization, 'keys'] })])
        showToast({ title: `${name} is no longer a member` })
      }}
      onClose={onClose}
    >
      <label className="check">
        <input type="checkbox" checked={revokeKeys} onChange={(event) => setRevokeKeys(event.target.checked)} />
        <span>
          Revoke their API keys
          <br />
          <span className="muted small">Otherwise the keys work again if this person becomes a member again.</span>
        </span>
      </label>
    </Confirm>
  )
}
