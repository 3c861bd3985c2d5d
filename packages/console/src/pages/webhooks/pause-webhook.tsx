import type { Webhook } from '@keyhook/client'
import { useState } from 'react'
import { client } from '../../api/client.ts'
import { refreshWebhooks } from '../../api/webhook-queries.ts'
import { Confirm } from '../../components/confirm.tsx'
import { Select } from '../../components/select.tsx'
import { showToast } from '../../components/toasts.tsx'

type Props = { organization: string; webhook: Webhook; onClose: () => void }

const lengths = { '1': '1 hour', '24': '1 day', '168': '7 days' }

export function PauseWebhook({ organization, webhook, onClose }: Props) {
  const [hours, setHours] = useState<keyof typeof lengths>('24')
  const pause = async () => {
    const until = new Date(Date.now() + Number(hours) * 3_600_000).toISOString()
    await client.webhooks.pause(webhook.id, { until }, { organization })
    await refreshWebhooks(organization)
    showToast({ title: 'Deliveries are paused' })
  }
  return (
    <Confirm
      title="Pause deliveries?"
      description="Events wait while the webhook is paused. They are sent in order when it resumes."
      action="Pause"
      danger={false}
      onConfirm={pause}
      onClose={onClose}
    >
      <Select label="Resume automatically after" options={lengths} value={hours} onChange={setHours} />
    </Confirm>
  )
}
