import { type OrganizationDelivery as Attempt, KeyhookError } from '@keyhook/client'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { RotateCw, X } from 'lucide-react'
import { useEffect, useRef, useState } from 'react'
import { client } from '../../api/client.ts'
import { eventQuery } from '../../api/event-queries.ts'
import { useMember } from '../../api/organization.ts'
import { webhooksQuery } from '../../api/webhook-queries.ts'
import { AttemptBadge } from '../../components/attempt-badge.tsx'
import { Button, IconButton } from '../../components/button.tsx'
import { CopyButton, IdChip } from '../../components/copy.tsx'
import { Notice } from '../../components/notice.tsx'
import { ErrorState, LoadingBlock } from '../../components/states.tsx'
import { exactText, RelativeTime } from '../../components/time.tsx'
import { Timeline } from '../../components/timeline.tsx'
import { showToast, toastError } from '../../components/toasts.tsx'
import { explain } from '../../words/errors.ts'
import { explainAttempt } from '../../words/send-errors.ts'
import { curlOf } from './curl.ts'
import { Body, Headers } from './message.tsx'
import { Waterfall } from './waterfall.tsx'

type Props = {
  id: string
  /** The attempt, if the list has it. */
  known: Attempt | undefined
  onOpen: (id: string) => void
  onClose: () => void
}

/** One attempt beside the list. */
export function DeliveryPanel({ id, known, onOpen, onClose }: Props) {
  const { id: organization } = useMember()
  const panel = useRef<HTMLElement>(null)
  const found = useQuery({
    queryKey: [organization, 'deliveries', 'one', id],
    queryFn: ({ signal }) => client.deliveries.get(id, { organization, signal }),
    enabled: known === undefined,
    refetchInterval: ({ state }) => (state.data?.status === 'sending' ? 2_000 : false),
  })
  const attempt = known ?? found.data
  useEffect(() => panel.current?.focus({ preventScroll: true }), [])
  return (
    <aside
      ref={panel}
      className="card panel"
      aria-label="Attempt"
      tabIndex={-1}
      onKeyDown={(event) => event.key === 'Escape' && onClose()}
    >
      {attempt !== undefined ? (
        <AttemptDetails attempt={attempt} onOpen={onOpen} onClose={onClose} />
      ) : (
        <>
          <div className="panel-header">
            <h2>Attempt</h2>
            <CloseButton onClose={onClose} />
          </div>
          {found.error ? <ErrorState error={found.error} retry={found.refetch} what="The attempt" /> : <LoadingBlock />}
        </>
      )}
    </aside>
  )
}

const CloseButton = ({ onClose }: { onClose: () => void }) => (
  <IconButton label="Close" onClick={onClose}>
    <X size={17} aria-hidden="true" />
  </IconButton>
)

function AttemptDetails({ attempt, onOpen, onClose }: Omit<Props, 'id' | 'known'> & { attempt: Attempt }) {
  const organization = useMember()
  const orgId = organization.id
  const event = useQuery(eventQuery(orgId, attempt.event_id))
  const webhooks = useQuery(webhooksQuery(orgId)).data
  const webhook = webhooks?.find(({ id }) => id === attempt.webhook_id)
  const isDeleted = webhooks !== undefined && webhook === undefined
  const [isRaw, setRaw] = useState(false)
  const body = event.data?.body ?? ''
  const lane = event.data?.delivered_to.find(({ webhook_id }) => webhook_id === attempt.webhook_id)
  return (
    <>
      <div className="panel-header">
        <h2 className="mono truncate">{attempt.event_type}</h2>
        {organization.can('deliveries:send') && <RedeliverButton attempt={attempt} />}
        {event.data && <CopyButton text={curlOf(attempt, body)} label="Copy as curl" />}
        <CloseButton onClose={onClose} />
      </div>
      <div className="panel-body">
        <div className="row row-wrap">
          <AttemptBadge delivery={attempt} />
          <span className="muted small">
            Attempt {attempt.attempt}, <RelativeTime at={attempt.started_at} /> · {exactText(attempt.started_at)}
          </span>
        </div>
        <Failure attempt={attempt} />
        {attempt.redelivered && (
          <Notice>
            This attempt was asked for by hand, by a redelivery or a recovery. The retry schedule started again with it:
            the retries that were planned before were replaced, and if this attempt fails, all of them are ahead again.
          </Notice>
        )}
        <dl className="facts">
          <dt>Event</dt>
          <dd className="row row-wrap">
            <IdChip id={attempt.event_id} />
            <Link to="/$orgId/events/$eventId" params={{ orgId, eventId: attempt.event_id }} className="small">
              Show event
            </Link>
          </dd>
          <dt>Attempt</dt>
          <dd>
            <IdChip id={attempt.id} />
          </dd>
          <dt>Webhook</dt>
          <dd className="break">
            {isDeleted ? (
              `${attempt.request.url} (deleted)`
            ) : (
              <Link to="/$orgId/webhooks/$webhookId" params={{ orgId, webhookId: attempt.webhook_id }}>
                {attempt.request.url}
              </Link>
            )}
          </dd>
          {attempt.request.address && (
            <>
              <dt>Address</dt>
              <dd className="mono">{attempt.request.address}</dd>
            </>
          )}
        </dl>
        {lane && (
          <section aria-label="All attempts">
            <h3>All attempts of this event</h3>
            <Timeline
              attempts={lane.attempts}
              status={lane.status}
              selected={attempt.id}
              pausedUntil={webhook?.paused_until ?? null}
              isSuspended={webhook?.status === 'suspended'}
              isDeleted={isDeleted}
              onOpen={onOpen}
            />
          </section>
        )}
        <Waterfall timings={attempt.request.timings} />
        <section aria-label="Response">
          <div className="panel-section-title">
            <h3>Response</h3>
            <div className="segments">
              <button type="button" aria-pressed={!isRaw} onClick={() => setRaw(false)}>
                Pretty
              </button>
              <button type="button" aria-pressed={isRaw} onClick={() => setRaw(true)}>
                Raw
              </button>
            </div>
          </div>
          {attempt.response === null ? (
            <p className="muted">There was no response.</p>
          ) : (
            <>
              <Headers headers={attempt.response.headers} first={`HTTP ${attempt.response.status}`} />
              <Body text={attempt.response.body} isRaw={isRaw} label="Copy the response" />
              {attempt.response.body_truncated && (
                <p className="small muted">Only the beginning of the body is kept.</p>
              )}
            </>
          )}
        </section>
        <section aria-label="Request">
          <h3>Request</h3>
          {attempt.request.headers && (
            <Headers headers={attempt.request.headers} first={`POST ${attempt.request.url}`} />
          )}
          {event.data && <Body text={body} isRaw={isRaw} label="Copy the request body" />}
          {event.error && !event.data && <p className="small muted">{withoutBody(event.error)}</p>}
        </section>
      </div>
    </>
  )
}

const withoutBody = (error: Error): string =>
  error instanceof KeyhookError && error.status === 404
    ? 'The body is no longer kept.'
    : `The body could not be loaded: ${explain(error)}`

function Failure({ attempt }: { attempt: Attempt }) {
  if (attempt.status !== 'failed' && attempt.status !== 'interrupted') return null
  const { title, fix } = explainAttempt(attempt.error?.code ?? null, attempt.response?.status ?? null)
  return (
    <Notice kind={attempt.status === 'failed' ? 'danger' : 'warning'}>
      <strong>{title}.</strong> {fix}
      {attempt.error?.detail && <div className="small muted mono">{attempt.error.detail}</div>}
    </Notice>
  )
}

function RedeliverButton({ attempt }: { attempt: Attempt }) {
  const { id: organization } = useMember()
  const [isBusy, setBusy] = useState(false)
  const redeliver = () => {
    setBusy(true)
    client.webhooks
      .redeliver(attempt.webhook_id, attempt.id, { organization })
      .then(
        () => showToast({ title: 'The event is sent again', description: 'Its retry schedule starts again.' }),
        toastError('The event was not sent again'),
      )
      .finally(() => setBusy(false))
  }
  return (
    <Button small busy={isBusy} disabled={attempt.status === 'sending'} onClick={redeliver}>
      {!isBusy && <RotateCw size={14} aria-hidden="true" />}
      Redeliver
    </Button>
  )
}
