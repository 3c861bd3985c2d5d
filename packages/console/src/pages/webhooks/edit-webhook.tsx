import type { Webhook } from '@keyhook/client'
import { useForm } from 'react-hook-form'
import { client } from '../../api/client.ts'
import { refreshWebhooks } from '../../api/webhook-queries.ts'
import { TextField } from '../../components/field.tsx'
import { FormDialog } from '../../components/form-dialog.tsx'
import { EventTypeChoices } from './event-type-choices.tsx'

type Props = { organization: string; webhook: Webhook; onClose: () => void }
type Form = { url: string; description: string; rate_limit: string; event_types: string[] }

export function EditWebhook({ organization, webhook, onClose }: Props) {
  const form = useForm<Form>({
    defaultValues: {
      url: webhook.url,
      description: webhook.description ?? '',
      rate_limit: webhook.rate_limit == null ? '' : String(webhook.rate_limit),
      event_types: webhook.event_types,
    },
  })
  const { errors, isDirty, dirtyFields } = form.formState
  const save = async (values: Form) => {
    const changes = {
      ...(dirtyFields.url && { url: values.url.trim() }),
      ...(dirtyFields.description && { description: values.description.trim() || null }),
      ...(dirtyFields.rate_limit && { rate_limit: values.rate_limit === '' ? null : Number(values.rate_limit) }),
      ...(dirtyFields.event_types && { event_types: values.event_types }),
    }
    await client.webhooks.update(webhook.id, changes, { organization })
    await refreshWebhooks(organization)
    onClose()
  }
  return (
    <FormDialog
      title="Edit webhook"
      description="Attempts that start after you save use the new settings. Changed event types apply to new events."
      action="Save"
      wide
      disabled={!isDirty}
      form={form}
      onSubmit={save}
      onClose={onClose}
    >
      <TextField
        label="URL"
        type="url"
        error={errors.url?.message}
        {...form.register('url', {
          validate: (url) => url.trim().startsWith('https://') || 'The URL must start with https://.',
        })}
      />
      <TextField label="Description" error={errors.description?.message} {...form.register('description')} />
      <TextField
        label="Rate limit"
        hint="At most this many requests per second, from 0.1 to 1,000. Leave it empty for no limit."
        inputMode="decimal"
        error={errors.rate_limit?.message}
        {...form.register('rate_limit', {
          validate: (text) =>
            text === '' ||
            (Number(text) >= 0.1 && Number(text) <= 1_000) ||
            'Enter a number from 0.1 to 1,000, or nothing.',
        })}
      />
      <EventTypeChoices
        organization={organization}
        registration={form.register('event_types', {
          validate: (types) => types.length > 0 || 'Choose at least one event type.',
        })}
        error={errors.event_types?.message}
      />
    </FormDialog>
  )
}
