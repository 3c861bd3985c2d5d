import type { Webhook } from '@keyhook/client'
import { useForm } from 'react-hook-form'
import { client } from '../../api/client.ts'
import { refreshWebhooks } from '../../api/webhook-queries.ts'
import { Button } from '../../components/button.tsx'
import { Dialog } from '../../components/dialog.tsx'
import { Field } from '../../components/field.tsx'
import { Notice } from '../../components/notice.tsx'
import { explain, fieldErrors } from '../../words/errors.ts'
import { EventTypeChoices } from './event-type-choices.tsx'

type Props = { organization: string; webhook: Webhook; onClose: () => void }
type Form = { description: string; rate_limit: string; event_types: string[] }

export function EditWebhook({ organization, webhook, onClose }: Props) {
  const form = useForm<Form>({
    defaultValues: {
      description: webhook.description ?? '',
      rate_limit: webhook.rate_limit == null ? '' : String(webhook.rate_limit),
      event_types: webhook.event_types,
    },
  })
  const { errors, isSubmitting, isDirty, dirtyFields } = form.formState
  const submit = form.handleSubmit(async (values) => {
    const changes = {
      ...(dirtyFields.description && { description: values.description.trim() || null }),
      ...(dirtyFields.rate_limit && { rate_limit: values.rate_limit === '' ? null : Number(values.rate_limit) }),
      ...(dirtyFields.event_types && { event_types: values.event_types }),
    }
    try {
      await client.webhooks.update(webhook.id, changes, { organization })
      await refreshWebhooks(organization)
      onClose()
    } catch (error) {
      const fields = fieldErrors(error)
      for (const [name, message] of fields) if (name in values) form.setError(name as keyof Form, { message })
      if (fields.size === 0) form.setError('root', { message: explain(error) })
    }
  })
  return (
    <Dialog
      title="Edit webhook"
      description={<span className="break">{webhook.url}</span>}
      onClose={onClose}
      wide
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" form="edit-webhook" look="primary" busy={isSubmitting} disabled={!isDirty}>
            Save
          </Button>
        </>
      }
    >
      <form id="edit-webhook" onSubmit={submit} className="stack" noValidate>
        <Field label="Description" error={errors.description?.message}>
          {(attributes) => <input {...attributes} className="input" {...form.register('description')} />}
        </Field>
        <Field
          label="Rate limit"
          hint="Deliveries per second at most. Empty: no limit."
          error={errors.rate_limit?.message}
        >
          {(attributes) => (
            <input
              {...attributes}
              className="input"
              inputMode="decimal"
              {...form.register('rate_limit', {
                validate: (text) => text === '' || Number(text) > 0 || 'Enter a number above 0, or nothing.',
              })}
            />
          )}
        </Field>
        <EventTypeChoices
          organization={organization}
          registration={form.register('event_types', {
            validate: (types) => types.length > 0 || 'Choose at least one event type.',
          })}
          error={errors.event_types?.message}
        />
        {errors.root?.message && <Notice kind="danger">{errors.root.message}</Notice>}
      </form>
    </Dialog>
  )
}
