import type { EventAttempt } from '@keyhook/client'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { client } from '../../api/client.ts'
import { eventQuery } from '../../api/event-queries.ts'
import { webhookQuery } from '../../api/webhook-queries.ts'
import { AttemptBadge } from '../../components/attempt-badge.tsx'
import { Button } from '../../components/button.tsx'
import { Json } from '../../components/code.tsx'
import { Notice } from '../../components/notice.tsx'
import { Countdown, RelativeTime } from '../../components/time.tsx'
import { toastError } from '../../components/toasts.tsx'
import { explain } from '../../words/errors.ts'
import { msText } from '../../words/numbers.ts'
import { explainAttempt, failureText } from '../../words/send-errors.ts'

type Texts = {
  accepted: string
  /** What follows from a failure, besides its remedy. */
  refused?: string
}

type Props = Texts & { organization: string; webhookId: string; type: string }

/** Sends a test event, and shows below what the endpoint answered. */
export function TestEvent({ organization, webhookId, type, ...texts }: Props) {
  const [eventId, setEventId] = useState<string | null>(null)
  const [isSending, setSending] = useState(false)
  const send = async () => {
    setSending(true)
    await client.webhooks
      .test(webhookId, { event_type: type }, { organization })
      .then(({ event_id }) => setEventId(event_id), toastError('The test event was not sent'))
    setSending(false)
  }
  return (
    <>
      <div>
        <Button busy={isSending} onClick={send}>
          {eventId === null ? 'Send test event' : 'Send another test event'}
        </Button>
      </div>
      {eventId !== null && <TestResult key={eventId} {...texts} {...{ organization, webhookId, eventId }} />}
    </>
  )
}

type ResultProps = Texts & { organization: string; webhookId: string; eventId: string }

/** It follows the retries: an endpoint that is fixed meanwhile is seen to accept the event. */
function TestResult({ organization, webhookId, eventId, accepted, refused = '' }: ResultProps) {
  const { data: event, error } = useQuery({ ...eventQuery(organization, eventId), refetchInterval: 1_000 })
  const lane = event?.delivered_to[0]
  const attempt = lane?.attempts.filter(({ status }) => status !== 'sending').at(-1)
  const pausedUntil = useQuery(webhookQuery(organization, webhookId)).data?.paused_until
  if (attempt === undefined) {
    if (error !== null) return <Notice kind="danger">The result could not be read: {explain(error)}</Notice>
    if (!pausedUntil) return <Notice>Waiting for your endpoint…</Notice>
    return (
      <Notice kind="warning">
        The webhook is paused. The test event is sent when it resumes, <RelativeTime at={pausedUntil} />.
      </Notice>
    )
  }
  const { error_code: code, response_status: status, next_attempt_at: next } = attempt
  return (
    <div className="stack-small" role="status">
      {attempt.status === 'succeeded' ? (
        <Notice kind="success">{accepted}</Notice>
      ) : (
        <Notice kind="danger">
          {failureText(code, status)}. {explainAttempt(code, status).fix} {refused}
        </Notice>
      )}
      <p className="row row-wrap small muted">
        <AttemptBadge delivery={attempt} /> Attempt {attempt.attempt} took {msText(attempt.duration_ms)}.
        {next !== null && lane?.status === 'waiting' && (
          <span>
            Next attempt <Countdown to={next} />
          </span>
        )}
        <Link to="/$orgId/events/$eventId" params={{ orgId: organization, eventId }}>
          Show event
        </Link>
      </p>
      <ResponseBody organization={organization} attempt={attempt} />
    </div>
  )
}

function ResponseBody({ organization, attempt }: { organization: string; attempt: EventAttempt }) {
  const { data } = useQuery({
    queryKey: [organization, 'deliveries', attempt.id],
    queryFn: ({ signal }) => client.deliveries.get(attempt.id, { organization, signal }),
    enabled: attempt.response_status !== null,
    staleTime: Number.POSITIVE_INFINITY,
  })
  if (!data?.response) return null
  if (data.response.body === '') return <p className="small muted">The response has no body.</p>
  return <Json text={data.response.body} label="Copy the response" />
}
