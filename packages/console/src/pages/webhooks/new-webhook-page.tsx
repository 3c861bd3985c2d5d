import '../../styles/webhooks.css'
import type { CreatedWebhook } from '@keyhook/client'
import { Link, useNavigate } from '@tanstack/react-router'
import { Lock } from 'lucide-react'
import { useState } from 'react'
import { useForm } from 'react-hook-form'
import { client } from '../../api/client.ts'
import { useMember } from '../../api/organization.ts'
import { refreshWebhooks } from '../../api/webhook-queries.ts'
import { Button } from '../../components/button.tsx'
import { Field } from '../../components/field.tsx'
import { Notice } from '../../components/notice.tsx'
import { PageHeader } from '../../components/page.tsx'
import { EmptyState } from '../../components/states.tsx'
import { explain, fieldErrors } from '../../words/errors.ts'
import { EventTypeChoices } from './event-type-choices.tsx'
import { WebhookSecret } from './webhook-secret.tsx'

type Form = { url: string; event_types: string[] }

export function NewWebhookPage() {
  const organization = useMember()
  const orgId = organization.id
  const navigate = useNavigate()
  const [created, setCreated] = useState<CreatedWebhook | null>(null)
  const form = useForm<Form>({ defaultValues: { url: '', event_types: [] } })
  const submit = form.handleSubmit(async (values) => {
    try {
      setCreated(await client.webhooks.create(values, { organization: orgId }))
      await refreshWebhooks(orgId)
    } catch (error) {
      const fields = fieldErrors(error)
      for (const name of ['url', 'event_types'] as const) {
        const message = fields.get(name)
        if (message !== undefined) form.setError(name, { message }, { shouldFocus: true })
      }
      if (fields.size === 0) form.setError('root', { message: explain(error) })
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
        <Field
          label="URL"
          hint="Deliveries are sent to this address, as POST requests over https."
          error={errors.url?.message}
        >
          {(attributes) => (
            <input
              {...attributes}
              className="input"
              type="url"
              autoComplete="off"
              spellCheck={false}
              placeholder="https://example.com/webhooks"
              {...form.register('url', {
                required: 'Enter the URL of your endpoint.',
                validate: (url) => url.startsWith('https://') || 'The URL must start with https://.',
              })}
            />
          )}
        </Field>
        <EventTypeChoices
          organization={orgId}
          registration={form.register('event_types', {
            validate: (types) => types.length > 0 || 'Choose at least one event type.',
          })}
          error={errors.event_types?.message}
        />
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
      {created && (
        <WebhookSecret
          title="Webhook created"
          secret={created.secret}
          onClose={() =>
            navigate({ to: '/$orgId/webhooks/$webhookId', params: { orgId, webhookId: created.id }, replace: true })
          }
        />
      )}
    </>
  )
}
