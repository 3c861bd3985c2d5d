import { Badge } from './badge.tsx'

const why = 'Joined with an invitation link. Nobody has confirmed that this address is theirs.'

/** Beside the address of somebody who could be anyone. */
export function Unverified({ of }: { of: { verified: boolean } }) {
  if (of.verified) return null
  return (
    <span title={why}>
      <Badge tone="warning">Unverified</Badge>
    </span>
  )
}
