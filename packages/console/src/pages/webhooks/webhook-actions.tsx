import type { Webhook } from '@keyhook/client'
import { useNavigate } from '@tanstack/react-router'
import { CirclePause, CirclePlay, KeyRound, Pencil, Send, Trash2 } from 'lucide-react'
import { client } from '../../api/client.ts'
import type { CurrentOrganization } from '../../api/organization.ts'
import { refreshWebhooks } from '../../api/webhook-queries.ts'
import { Button } from '../../components/button.tsx'
import { Confirm } from '../../components/confirm.tsx'
import { MenuItem, MenuSeparator, RowMenu } from '../../components/menu.tsx'
import { showToast } from '../../components/toasts.tsx'
import { EditWebhook } from './edit-webhook.tsx'
import { PauseWebhook } from './pause-webhook.tsx'
import { RotateSecret } from './rotate-secret.tsx'
import { SendTest } from './send-test.tsx'

export type WebhookDialog = 'edit' | 'pause' | 'rotate' | 'test' | 'delete'

type ActionsProps = {
  organization: CurrentOrganization
  webhook: Webhook
  open: (dialog: WebhookDialog) => void
  resume: () => void
}

export function WebhookActions({ organization, webhook, open, resume }: ActionsProps) {
  return (
    <>
      {organization.can('deliveries:send') && (
        <Button onClick={() => open('test')}>
          <Send size={15} aria-hidden="true" />
          Send test event
        </Button>
      )}
      {organization.can('webhooks:update') && (
        <>
          {webhook.status === 'paused' ? (
            <Button onClick={resume}>
              <CirclePlay size={15} aria-hidden="true" />
              Resume
            </Button>
          ) : (
            <Button onClick={() => open('pause')}>
              <CirclePause size={15} aria-hidden="true" />
              Pause
            </Button>
          )}
          <Button onClick={() => open('rotate')}>
            <KeyRound size={15} aria-hidden="true" />
            Rotate secret
          </Button>
        </>
      )}
      {organization.can('webhooks:update') && (
        <RowMenu label="More actions">
          <MenuItem icon={Pencil} onSelect={() => open('edit')}>
            Edit
          </MenuItem>
          {organization.can('webhooks:delete') && (
            <>
              <MenuSeparator />
              <MenuItem icon={Trash2} danger onSelect={() => open('delete')}>
                Delete
              </MenuItem>
            </>
          )}
        </RowMenu>
      )}
    </>
  )
}

type DialogsProps = { organization: string; webhook: Webhook; open: WebhookDialog | null; onClose: () => void }

export function WebhookDialogs({ open, ...props }: DialogsProps) {
  if (open === 'edit') return <EditWebhook {...props} />
  if (open === 'pause') return <PauseWebhook {...props} />
  if (open === 'rotate') return <RotateSecret {...props} />
  if (open === 'test') return <SendTest {...props} />
  return open === 'delete' ? <DeleteWebhook {...props} /> : null
}

function DeleteWebhook({ organization, webhook, onClose }: Omit<DialogsProps, 'open'>) {
  const navigate = useNavigate()
  const remove = async () => {
    await client.webhooks.delete(webhook.id, { organization })
    await navigate({ to: '/$orgId/webhooks', params: { orgId: organization } })
    await refreshWebhooks(organization)
    showToast({ title: 'The webhook is deleted' })
  }
  return (
    <Confirm
      title="Delete this webhook?"
      description={
        <>
          <strong className="break">{webhook.url}</strong> gets no further deliveries, and events that wait for it are
          dropped. This cannot be undone.
        </>
      }
      action="Delete webhook"
      onConfirm={remove}
      onClose={onClose}
    />
  )
}
