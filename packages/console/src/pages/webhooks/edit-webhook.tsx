import type { Webhook } from '@keyhook/client'
import { useForm } from 'react-hook-form'
import { client } from '../../api/client.ts'
import { refreshWebhooks } from '../../api/webhook-queries.ts'
import { FormDialog } from '../../components/form-dialog.tsx'
import { WebhookFields } from './webhook-fields.tsx'
import type { WebhookForm } from './webhook-form.ts'

type Props = { organization: string; webhook: Webhook; onClose: () => void }

export function EditWebhook({ organization, webhook, onClose }: Props) {
  const form = useForm<WebhookForm>({
    defaultValues: {
      url: webhook.url,
      description: webhook.description ?? '',
      rate_limit: webhook.rate_limit == null ? '' : String(webhook.rate_limit),
      event_types: webhook.event_types,
    },
  })
  const { isDirty, dirtyFields } = form.formState
  const save = async (values: WebhookForm) => {
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
      <WebhookFields organization={organization} form={form} />
    </FormDialog>
  )
}
