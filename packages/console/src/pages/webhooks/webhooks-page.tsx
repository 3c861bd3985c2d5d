import '../../styles/webhooks.css'
import type { Webhook } from '@keyhook/client'
import { Link } from '@tanstack/react-router'
import { Plus, Webhook as WebhookIcon } from 'lucide-react'
import { client } from '../../api/client.ts'
import { useList } from '../../api/lists.ts'
import { useMember } from '../../api/organization.ts'
import { type Column, DataTable } from '../../components/data-table.tsx'
import { PageHeader } from '../../components/page.tsx'
import { EmptyState } from '../../components/states.tsx'
import { LastFailure, SuccessShare, Waiting, WebhookStatus } from './health.tsx'

export function WebhooksPage() {
  const organization = useMember()
  const orgId = organization.id
  const webhooks = useList(
    [orgId, 'webhooks', 'list'],
    (options) => client.webhooks.list({ ...options, organization: orgId }),
    { refetchInterval: 5_000 },
  )
  const create = organization.can('webhooks:create') && (
    <Link to="/$orgId/webhooks/new" params={{ orgId }} className="button button-primary">
      <Plus size={16} aria-hidden="true" />
      Create webhook
    </Link>
  )
  const columns: Column<Webhook>[] = [
    {
      label: 'Endpoint',
      className: 'cell-url',
      cell: (webhook) => (
        <div>
          <Link to="/$orgId/webhooks/$webhookId" params={{ orgId, webhookId: webhook.id }} className="cell-title break">
            {webhook.url}
          </Link>
          <div className="small muted break">{webhook.description ?? subscribed(webhook)}</div>
        </div>
      ),
    },
    { label: 'Status', cell: (webhook) => <WebhookStatus webhook={webhook} /> },
    { label: 'Succeeded', cell: (webhook) => <SuccessShare health={webhook.health} /> },
    { label: 'Last failure', cell: (webhook) => <LastFailure health={webhook.health} /> },
    { label: 'Waiting', cell: (webhook) => <Waiting health={webhook.health} /> },
  ]
  return (
    <>
      <PageHeader
        title="Webhooks"
        description="Your endpoints that get events. Each delivery is signed, and retried until the endpoint accepts it."
        actions={create}
      />
      <section className="card" aria-label="Webhooks">
        <DataTable
          {...webhooks}
          label="Webhooks"
          columns={columns}
          rowKey={(webhook) => webhook.id}
          empty={
            <EmptyState icon={WebhookIcon} title="No webhooks yet" action={create}>
              Create a webhook to get events about databases, backups and invoices instead of polling the API.
            </EmptyState>
          }
        />
      </section>
    </>
  )
}

const subscribed = ({ event_types: types }: Webhook): string =>
  types.length === 1 ? types[0]! : `${types.length} event types`
