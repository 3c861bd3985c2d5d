import { Badge } from './badge.tsx'

const why = 'This user joined with an invitation link. Nobody has confirmed the e-mail address.'

/** Beside the address of somebody who could be anyone. */
export function Unverified({ of }: { of: { verified: boolean } }) {
  if (of.verified) return null
  return (
    <span title={why}>
      <Badge tone="warning">Unverified</Badge>
    </span>
  )
}
