import type { ApiKeyDetails } from '@keyhook/client'
import { useQuery } from '@tanstack/react-query'
import { Pencil, RefreshCw } from 'lucide-react'
import { daysMaxOf, keyLifetimeQuery } from '../../api/key-queries.ts'
import { useMember, useSession } from '../../api/organization.ts'
import { Button } from '../../components/button.tsx'
import { MenuItem, RowMenu } from '../../components/menu.tsx'
import { EditKey } from './edit-key.tsx'
import { RevokeKey } from './revoke-key.tsx'
import { RotateKey } from './rotate-key.tsx'

export type OpenKeyDialog = { dialog: 'edit' | 'rotate' | 'revoke'; apiKey: ApiKeyDetails }

type ActionsProps = {
  apiKey: ApiKeyDetails
  open: (dialog: OpenKeyDialog) => void
  /** Whether it acts as a service member, for which owners rotate it. */
  isOfService?: boolean
}

export function KeyActions({ apiKey, open, isOfService = false }: ActionsProps) {
  const organization = useMember()
  const { user } = useSession()
  if (apiKey.status !== 'active') return null
  const isOwn = apiKey.created_by === user?.id
  const may = (permission: string) =>
    organization.reach(permission) === 'all' || (isOwn && organization.can(permission))
  // A new key acts as the user of the old one, so nobody rotates the key of another person.
  const mayRotate = isOfService ? organization.can('service-members:manage') : isOwn && organization.can('keys:create')
  return (
    <div className="key-actions">
      {may('keys:revoke') && (
        <Button small onClick={() => open({ dialog: 'revoke', apiKey })} aria-label={`Revoke ${apiKey.name}`}>
          Revoke
        </Button>
      )}
      {(may('keys:update') || mayRotate) && (
        <RowMenu label={`More actions for ${apiKey.name}`}>
          {may('keys:update') && (
            <MenuItem icon={Pencil} onSelect={() => open({ dialog: 'edit', apiKey })}>
              Edit
            </MenuItem>
          )}
          {mayRotate && (
            <MenuItem icon={RefreshCw} onSelect={() => open({ dialog: 'rotate', apiKey })}>
              Rotate
            </MenuItem>
          )}
        </RowMenu>
      )}
    </div>
  )
}

type DialogProps = OpenKeyDialog & { organization: string; onClose: () => void }

export function KeyDialog({ dialog, ...props }: DialogProps) {
  const lifetime = useQuery(keyLifetimeQuery(props.organization))
  if (dialog === 'revoke') return <RevokeKey {...props} />
  // Without an answer the server still refuses what is too long.
  if (lifetime.isPending) return null
  const daysMax = daysMaxOf(lifetime.data)
  return dialog === 'edit' ? <EditKey {...props} daysMax={daysMax} /> : <RotateKey {...props} daysMax={daysMax} />
}
