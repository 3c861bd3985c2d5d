import type { Webhook } from '@keyhook/client'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { client } from '../../api/client.ts'
import { useEventTypes } from '../../api/webhook-queries.ts'
import { Json } from '../../components/code.tsx'
import { Confirm } from '../../components/confirm.tsx'
import { Select } from '../../components/select.tsx'

type Props = { organization: string; webhook: Webhook; onClose: () => void }

export function SendTest({ organization, webhook, onClose }: Props) {
  const types = useEventTypes(organization)
  const [type, setType] = useState<string>(webhook.event_types[0] ?? 'database.created')
  const navigate = useNavigate()
  const example = types.find(({ name }) => name === type)?.example
  const sample = example && { ...example, data: { ...(example.data as object), test: true } }
  // Those that the webhook gets first.
  const names = new Set<string>([...webhook.event_types, ...types.map(({ name }) => name)])
  const labelOf = (name: string) => (webhook.event_types.includes(name) ? `${name} (subscribed)` : name)
  const send = async () => {
    const { event_id } = await client.webhooks.test(webhook.id, { event_type: type }, { organization })
    await navigate({ to: '/$orgId/events/$eventId', params: { orgId: organization, eventId: event_id } })
  }
  return (
    <Confirm
      title="Send a test event"
      description={`A sample is sent to this webhook alone, signed and retried like any other event.${webhook.secret_rotation?.switched === false ? ' It is signed with the new secret, because the secret is being rotated.' : ''}`}
      action="Send"
      danger={false}
      onConfirm={send}
      onClose={onClose}
    >
      <Select
        label="Event type"
        options={Object.fromEntries([...names].map((name) => [name, labelOf(name)]))}
        value={type}
        onChange={setType}
      />
      {sample && <Json text={JSON.stringify(sample)} label="Copy the example" />}
    </Confirm>
  )
}
