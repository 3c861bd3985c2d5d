import { Badge } from './badge.tsx'

const why = 'This user joined with an invitation link. Nobody has confirmed the e-mail address.'

/** Beside the name of what is no person, and of somebody who could be anyone. */
export function UserBadge({ of }: { of: { verified: boolean; service: boolean } }) {
  if (of.service) return <Badge>Service member</Badge>
  if (of.verified) return null
  return (
    <span title={why}>
      <Badge tone="warning">Unverified</Badge>
    </span>
  )
}
