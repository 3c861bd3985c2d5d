import '../../styles/deliveries.css'
import '../../styles/webhooks.css'
import type { ExplainedEvent, Webhook as WebhookRecord } from '@keyhook/client'
import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { Webhook } from 'lucide-react'
import { eventQuery } from '../../api/event-queries.ts'
import { useMember } from '../../api/organization.ts'
import { webhooksQuery } from '../../api/webhook-queries.ts'
import { Badge, type Tone } from '../../components/badge.tsx'
import { Json } from '../../components/code.tsx'
import { IdChip } from '../../components/copy.tsx'
import { PageHeader } from '../../components/page.tsx'
import { EmptyState } from '../../components/states.tsx'
import { RelativeTime } from '../../components/time.tsx'
import { Timeline } from '../../components/timeline.tsx'
import { PageFailure, PageLoading } from '../../layout/fallbacks.tsx'
import { countText } from '../../words/numbers.ts'

const route = getRouteApi('/$orgId/events/$eventId')

export function EventPage() {
  const { orgId, eventId } = route.useParams()
  const event = useQuery(eventQuery(orgId, eventId))
  if (event.data !== undefined) return <LoadedEvent event={event.data} />
  if (event.error !== null) return <PageFailure error={event.error} retry={event.refetch} what="The event" />
  return <PageLoading />
}

type Delivery = ExplainedEvent['delivered_to'][number]

const states: Record<Delivery['status'] | 'failing', { text: string; tone: Tone }> = {
  waiting: { text: 'Waiting', tone: 'warning' },
  sending: { text: 'Sending', tone: 'info' },
  failing: { text: 'Failing', tone: 'danger' },
  succeeded: { text: 'Delivered', tone: 'success' },
  failed: { text: 'Not delivered', tone: 'danger' },
  expired: { text: 'Finished', tone: 'neutral' },
}

/** As the list of events counts it: a delivery that waits after a failure is failing. */
const stateOf = ({ status, attempts }: Delivery) =>
  status === 'waiting' && ['failed', 'interrupted'].includes(attempts.at(-1)?.status ?? '') ? 'failing' : status

const reasons: Record<ExplainedEvent['not_delivered_to'][number]['reason'], string> = {
  not_subscribed: 'The webhook is not subscribed to this event type.',
  webhook_created_later: 'The webhook was created after the event.',
  webhook_deleted: 'The webhook was deleted.',
  sample_for_another_webhook: 'This test event was for another webhook.',
}

function LoadedEvent({ event }: { event: ExplainedEvent }) {
  const { orgId } = route.useParams()
  const webhooks = useQuery({ ...webhooksQuery(orgId), enabled: useMember().can('webhooks:read') }).data
  return (
    <>
      <PageHeader
        title={event.type}
        heading={<span className="mono">{event.type}</span>}
        crumbs={
          <Link to="/$orgId/events" params={{ orgId }}>
            Events
          </Link>
        }
        description={
          <>
            {event.test ? 'Test event' : event.sequence !== null && `Number ${countText(event.sequence)}`},{' '}
            <RelativeTime at={event.created_at} /> · <IdChip id={event.id} />
          </>
        }
      />
      <div className="two-columns">
        <section className="card" aria-label="Webhooks">
          <div className="card-header">
            <h2>Webhooks</h2>
          </div>
          {event.delivered_to.length === 0 && event.not_delivered_to.length === 0 && (
            <EmptyState icon={Webhook} title="The event was sent to no webhook">
              The organization had no webhook when this event was published.
            </EmptyState>
          )}
          {event.delivered_to.map((lane) => (
            <Lane key={lane.webhook_id} orgId={orgId} lane={lane} webhooks={webhooks} />
          ))}
          {event.not_delivered_to.map((lane) => (
            <div key={lane.webhook_id} className="lane">
              <div className="row">
                <span className="grow break muted">{lane.url}</span>
                <Badge>Not sent</Badge>
              </div>
              <p className="small muted">{reasons[lane.reason]}</p>
            </div>
          ))}
        </section>
        <section className="card" aria-label="Body">
          <div className="card-header">
            <h2>Body</h2>
          </div>
          <div className="card-body">
            <Json text={event.body} label="Copy the body" />
          </div>
        </section>
      </div>
    </>
  )
}

type LaneProps = {
  orgId: string
  lane: Delivery
  /** Undefined until they are loaded. */
  webhooks: readonly WebhookRecord[] | undefined
}

/** One webhook that the event goes to, with its attempts and what comes next. */
function Lane({ orgId, lane, webhooks }: LaneProps) {
  const navigate = useNavigate()
  const webhook = webhooks?.find(({ id }) => id === lane.webhook_id)
  const state = states[stateOf(lane)]
  const isDeleted = webhooks !== undefined && webhook === undefined
  const open = (delivery: string) =>
    navigate({ to: '/$orgId/deliveries', params: { orgId }, search: { webhook: lane.webhook_id, delivery } })
  return (
    <div className="lane">
      <div className="row">
        {isDeleted ? (
          <span className="grow break muted">{lane.url}</span>
        ) : (
          <Link
            to="/$orgId/webhooks/$webhookId"
            params={{ orgId, webhookId: lane.webhook_id }}
            className="grow break cell-title"
          >
            {lane.url}
          </Link>
        )}
        <Badge tone={state.tone} busy={lane.status === 'sending'}>
          {state.text}
        </Badge>
      </div>
      <Timeline
        attempts={lane.attempts}
        status={lane.status}
        pausedUntil={webhook?.paused_until ?? null}
        isSuspended={webhook?.status === 'suspended'}
        isDeleted={isDeleted}
        onOpen={open}
      />
    </div>
  )
}
