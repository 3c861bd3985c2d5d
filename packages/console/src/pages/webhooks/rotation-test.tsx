import type { Webhook } from '@keyhook/client'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { client } from '../../api/client.ts'
import { eventQuery } from '../../api/event-queries.ts'
import { Button } from '../../components/button.tsx'
import { Notice } from '../../components/notice.tsx'
import { toastError } from '../../components/toasts.tsx'
import { explainAttempt, failureText } from '../../words/send-errors.ts'

type Props = { organization: string; webhook: Webhook }

/** Sends a test event, which the new secret signs, and shows what the endpoint answered. */
export function RotationTest({ organization, webhook }: Props) {
  const [eventId, setEventId] = useState<string | null>(null)
  const send = () =>
    client.webhooks
      .test(webhook.id, { event_type: webhook.event_types[0]! }, { organization })
      .then(({ event_id }) => setEventId(event_id), toastError('The test event was not sent'))
  return (
    <>
      <p className="small muted">Then send a test event, which is signed with the new secret alone.</p>
      <div>
        <Button onClick={send}>{eventId === null ? 'Send test event' : 'Send another test event'}</Button>
      </div>
      {eventId !== null && <TestResult key={eventId} organization={organization} eventId={eventId} />}
    </>
  )
}

function TestResult({ organization, eventId }: { organization: string; eventId: string }) {
  const { data: event } = useQuery({ ...eventQuery(organization, eventId), refetchInterval: 1_000 })
  const attempt = event?.delivered_to[0]?.attempts.at(-1)
  if (attempt?.status === 'succeeded')
    return <Notice kind="success">Your endpoint accepts the new secret. You can switch.</Notice>
  if (attempt === undefined || attempt.status === 'sending') return <Notice>Waiting for your endpoint…</Notice>
  const { error_code: code, response_status: status } = attempt
  return (
    <Notice kind="danger">
      {failureText(code, status)}. {explainAttempt(code, status).fix} Do not switch yet.
    </Notice>
  )
}
