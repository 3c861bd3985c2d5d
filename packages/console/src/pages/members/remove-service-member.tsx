import type { ApiKeyDetails, OrganizationMember } from '@keyhook/client'
import { client, queryClient } from '../../api/client.ts'
import { refreshKeys } from '../../api/key-queries.ts'
import { Confirm } from '../../components/confirm.tsx'
import { showToast } from '../../components/toasts.tsx'
import { countText } from '../../words/numbers.ts'

type Props = {
  member: OrganizationMember
  /** Its active keys; undefined if they are not known. */
  keys: readonly ApiKeyDetails[] | undefined
  organization: string
  onClose: () => void
}

export function RemoveServiceMember({ member, keys, organization, onClose }: Props) {
  return (
    <Confirm
      title={`Remove ${member.name}?`}
      description={`${endOf(keys)} This cannot be undone.`}
      action="Remove service member"
      onConfirm={async () => {
        await client.members.remove(member.user_id, { organization })
        await Promise.all([
          queryClient.invalidateQueries({ queryKey: [organization, 'members'] }),
          refreshKeys(organization),
        ])
        showToast({ title: `${member.name} is no longer a member` })
      }}
      onClose={onClose}
    />
  )
}

const namedMax = 5

function endOf(keys: readonly ApiKeyDetails[] | undefined): string {
  if (keys === undefined) return 'Its API keys are revoked.'
  if (keys.length === 0) return 'It has no API keys.'
  if (keys.length === 1) return `Its API key “${keys[0]!.name}” is revoked.`
  const names = keys.slice(0, namedMax).map(({ name }) => `“${name}”`)
  const others = keys.length - names.length
  const list = others > 0 ? `${names.join(', ')} and ${countText(others)} more` : names.join(', ')
  return `Its ${countText(keys.length)} API keys are revoked: ${list}.`
}
