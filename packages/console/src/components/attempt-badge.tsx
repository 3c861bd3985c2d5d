import type { Delivery } from '@keyhook/client'
import { Badge } from './badge.tsx'

/** The outcome of an attempt with the status of the answer. */
export function AttemptBadge({
  delivery,
}: {
  delivery: Pick<Delivery, 'status'> & { response?: { status: number } | null; response_status?: number | null }
}) {
  const answer = delivery.response?.status ?? delivery.response_status ?? null
  const suffix = answer === null ? '' : ` · ${answer}`
  if (delivery.status === 'succeeded') return <Badge tone="success">Succeeded{suffix}</Badge>
  if (delivery.status === 'failed') return <Badge tone="danger">Failed{suffix}</Badge>
  if (delivery.status === 'interrupted') return <Badge tone="warning">Interrupted</Badge>
  return (
    <Badge tone="info" busy>
      Sending
    </Badge>
  )
}
