import '../../styles/webhooks.css'
import type { CreatedWebhook as Created } from '@keyhook/client'
import { Link } from '@tanstack/react-router'
import { Lock } from 'lucide-react'
import { useState } from 'react'
import { useForm } from 'react-hook-form'
import { client } from '../../api/client.ts'
import { useMember } from '../../api/organization.ts'
import { refreshWebhooks } from '../../api/webhook-queries.ts'
import { Button } from '../../components/button.tsx'
import { showErrors } from '../../components/form-dialog.tsx'
import { Notice } from '../../components/notice.tsx'
import { PageHeader } from '../../components/page.tsx'
import { EmptyState } from '../../components/states.tsx'
import { explain } from '../../words/errors.ts'
import { CreatedWebhook } from './created-webhook.tsx'
import { WebhookFields } from './webhook-fields.tsx'
import type { WebhookForm } from './webhook-form.ts'

/** `unsaved`: why the webhook has neither description nor rate limit; null if nothing went wrong. */
type Result = { webhook: Created; unsaved: string | null }

async function create(organization: string, form: WebhookForm): Promise<Result> {
  const description = form.description.trim()
  const webhook = await client.webhooks.create(
    { url: form.url.trim(), event_types: form.event_types },
    { organization },
  )
  const settings = {
    ...(description !== '' && { description }),
    ...(form.rate_limit !== '' && { rate_limit: Number(form.rate_limit) }),
  }
  if (Object.keys(settings).length === 0) return { webhook, unsaved: null }
  // The webhook exists, and its secret is in this answer alone: an error must not hide it.
  const unsaved = await client.webhooks.update(webhook.id, settings, { organization }).then(() => null, explain)
  return { webhook, unsaved }
}

export function NewWebhookPage() {
  const organization = useMember()
  const orgId = organization.id
  const [created, setCreated] = useState<Result | null>(null)
  const form = useForm<WebhookForm>({ defaultValues: { url: '', description: '', rate_limit: '', event_types: [] } })
  const submit = form.handleSubmit(async (values) => {
    try {
      setCreated(await create(orgId, values))
      await refreshWebhooks(orgId)
    } catch (error) {
      showErrors(form, error)
    }
  })
  const { errors, isSubmitting } = form.formState
  if (!organization.can('webhooks:create')) {
    return (
      <EmptyState isPage icon={Lock} title="Your role cannot create webhooks">
        Ask an owner or admin of the organization.
      </EmptyState>
    )
  }
  if (created !== null) return <CreatedWebhook {...created} />
  return (
    <>
      <PageHeader
        title="Create webhook"
        crumbs={
          <Link to="/$orgId/webhooks" params={{ orgId }}>
            Webhooks
          </Link>
        }
      />
      <form onSubmit={submit} className="stack narrow-form" noValidate>
        <WebhookFields organization={orgId} form={form} />
        {errors.root?.message && <Notice kind="danger">{errors.root.message}</Notice>}
        <div className="row">
          <Button type="submit" look="primary" busy={isSubmitting}>
            Create webhook
          </Button>
          <Link to="/$orgId/webhooks" params={{ orgId }} className="button">
            Cancel
          </Link>
        </div>
      </form>
    </>
  )
}
