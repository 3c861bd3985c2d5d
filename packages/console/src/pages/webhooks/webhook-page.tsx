import '../../styles/webhooks.css'
import type { Webhook } from '@keyhook/client'
import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { useState } from 'react'
import { client } from '../../api/client.ts'
import { useMember } from '../../api/organization.ts'
import { refreshWebhooks, webhookQuery } from '../../api/webhook-queries.ts'
import { Button } from '../../components/button.tsx'
import { IdChip } from '../../components/copy.tsx'
import { Notice } from '../../components/notice.tsx'
import { PageHeader } from '../../components/page.tsx'
import { PersonName } from '../../components/person.tsx'
import { Stat } from '../../components/stat.tsx'
import { RelativeTime } from '../../components/time.tsx'
import { showToast, toastError } from '../../components/toasts.tsx'
import { PageFailure, PageLoading } from '../../layout/fallbacks.tsx'
import { EndpointCharts } from './endpoint-charts.tsx'
import { FailingNotice } from './failing.tsx'
import { LastFailure, NextAttempt, SuccessShare, Waiting, WebhookStatus } from './health.tsx'
import { LatestAttempts } from './latest-attempts.tsx'
import { RotationNotice } from './rotate-secret.tsx'
import { WebhookActions, type WebhookDialog, WebhookDialogs } from './webhook-actions.tsx'

const route = getRouteApi('/$orgId/webhooks/$webhookId')

export function WebhookPage() {
  const { orgId, webhookId } = route.useParams()
  const webhook = useQuery(webhookQuery(orgId, webhookId))
  if (webhook.data !== undefined) return <LoadedWebhook webhook={webhook.data} />
  if (webhook.error !== null) return <PageFailure error={webhook.error} retry={webhook.refetch} what="The webhook" />
  return <PageLoading />
}

function LoadedWebhook({ webhook }: { webhook: Webhook }) {
  const organization = useMember()
  const orgId = organization.id
  const [open, setOpen] = useState<WebhookDialog | null>(null)
  const mayUpdate = organization.can('webhooks:update')
  const resume = () =>
    client.webhooks.resume(webhook.id, { organization: orgId }).then(() => {
      showToast({ title: 'The webhook is resumed' })
      return refreshWebhooks(orgId)
    }, toastError('The webhook is still paused'))
  return (
    <>
      <PageHeader
        title={webhook.url}
        crumbs={
          <Link to="/$orgId/webhooks" params={{ orgId }}>
            Webhooks
          </Link>
        }
        description={webhook.description}
        actions={<WebhookActions organization={organization} webhook={webhook} open={setOpen} resume={resume} />}
      />
      <div className="stack">
        {webhook.status === 'paused' && <PausedNotice webhook={webhook} resume={mayUpdate ? resume : null} />}
        <FailingNotice webhook={webhook} />
        <RotationNotice webhook={webhook} proceed={mayUpdate ? () => setOpen('rotate') : null} />
        <section className="card" aria-label="Health">
          <dl className="stat-grid">
            <Stat label="Status">
              <WebhookStatus webhook={webhook} />
            </Stat>
            <Stat label="Succeeded">
              <SuccessShare health={webhook.health} />
            </Stat>
            <Stat label="Last failure">
              <LastFailure health={webhook.health} />
            </Stat>
            <Stat label="Waiting">
              <Waiting health={webhook.health} />
            </Stat>
            <Stat label="Next attempt">
              <NextAttempt health={webhook.health} />
            </Stat>
          </dl>
        </section>
        <EndpointCharts organization={orgId} webhookId={webhook.id} />
        <div className="two-columns">
          <LatestAttempts organization={orgId} webhookId={webhook.id} />
          <section className="card" aria-label="Settings">
            <div className="card-header">
              <h2>Settings</h2>
              {mayUpdate && (
                <Button small onClick={() => setOpen('edit')}>
                  Edit
                </Button>
              )}
            </div>
            <div className="card-body">
              <Facts webhook={webhook} />
            </div>
          </section>
        </div>
      </div>
      <WebhookDialogs organization={orgId} webhook={webhook} open={open} onClose={() => setOpen(null)} />
    </>
  )
}

function PausedNotice({ webhook, resume }: { webhook: Webhook; resume: (() => unknown) | null }) {
  return (
    <Notice kind="warning">
      <div className="row row-wrap">
        <span className="grow">
          Paused; resumes by itself {webhook.paused_until && <RelativeTime at={webhook.paused_until} />}. Events wait,
          and are then sent in order.
        </span>
        {resume && (
          <Button small onClick={resume}>
            Resume
          </Button>
        )}
      </div>
    </Notice>
  )
}

function Facts({ webhook }: { webhook: Webhook }) {
  return (
    <dl className="facts">
      <dt>Event types</dt>
      <dd className="tags">
        {webhook.event_types.map((type) => (
          <span key={type} className="tag">
            {type}
          </span>
        ))}
      </dd>
      <dt>Secret</dt>
      <dd>
        <span className="mono">whsec_…</span>
        {webhook.secret_created_at !== null && (
          <>
            {' '}
            {webhook.secret_rotation?.switched === false ? 'the new one was made' : 'made'}{' '}
            <RelativeTime at={webhook.secret_created_at} />
          </>
        )}
      </dd>
      <dt>Rate limit</dt>
      <dd>{webhook.rate_limit == null ? 'None' : `${webhook.rate_limit} per second`}</dd>
      <dt>Id</dt>
      <dd>
        <IdChip id={webhook.id} short />
      </dd>
      <dt>Created</dt>
      <dd>
        <RelativeTime at={webhook.created_at} /> by <PersonName id={webhook.created_by} inText />
      </dd>
    </dl>
  )
}
