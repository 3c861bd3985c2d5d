import type { Webhook } from '@keyhook/client'
import { useState } from 'react'
import { useForm } from 'react-hook-form'
import { client } from '../../api/client.ts'
import { refreshWebhooks } from '../../api/webhook-queries.ts'
import { Button } from '../../components/button.tsx'
import { FormDialog } from '../../components/form-dialog.tsx'
import { Notice } from '../../components/notice.tsx'
import { Select } from '../../components/select.tsx'
import { RelativeTime } from '../../components/time.tsx'
import { showToast, toastError } from '../../components/toasts.tsx'
import { WebhookSecret } from './webhook-secret.tsx'

type Props = { organization: string; webhook: Webhook; onClose: () => void }

const overlaps = { '86400': '24 hours', '604800': '7 days', '0': 'At once: the old secret has leaked' }

export function RotateSecret({ organization, webhook, onClose }: Props) {
  const [seconds, setSeconds] = useState<keyof typeof overlaps>('86400')
  const [secret, setSecret] = useState<string | null>(null)
  const form = useForm()
  if (secret !== null) return <WebhookSecret title="New signing secret" secret={secret} onClose={onClose} />
  const rotate = async () => {
    const rotation = { overlap_seconds: Number(seconds) }
    const rotated = await client.webhooks.rotateSecret(webhook.id, rotation, { organization })
    setSecret(rotated.secret)
    await refreshWebhooks(organization)
  }
  return (
    <FormDialog
      title="Rotate the signing secret?"
      description="You get a new secret. While both are valid, deliveries carry a signature of each, so nothing is lost while you deploy the new one."
      action="Rotate secret"
      danger={seconds === '0'}
      form={form}
      onSubmit={rotate}
      onClose={onClose}
    >
      <Select label="The old secret ends after" options={overlaps} value={seconds} onChange={setSeconds} />
    </FormDialog>
  )
}

type NoticeProps = { organization: string; webhook: Webhook; mayUpdate: boolean }

/** A rotation that is not over, with its second step. */
export function RotationNotice({ organization, webhook, mayUpdate }: NoticeProps) {
  const rotation = webhook.secret_rotation
  if (rotation === null) return null
  const switchOver = () =>
    client.webhooks.switchSecret(webhook.id, { organization }).then(() => {
      showToast({ title: 'X-Service-Signature uses the new secret' })
      return refreshWebhooks(organization)
    }, toastError('The secret was not switched'))
  return (
    <Notice>
      <div className="row row-wrap">
        <span className="grow">
          The secret is being rotated: the old one ends <RelativeTime at={rotation.ends_at} />.{' '}
          {rotation.switched
            ? 'X-Service-Signature uses the new secret.'
            : 'X-Service-Signature still uses the old secret. Switch when your endpoint has the new one.'}
        </span>
        {mayUpdate && !rotation.switched && (
          <Button small onClick={switchOver}>
            Use the new secret
          </Button>
        )}
      </div>
    </Notice>
  )
}
