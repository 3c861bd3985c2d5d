import type { UseFormReturn } from 'react-hook-form'
import { TextField } from '../../components/field.tsx'
import { EventTypeChoices } from './event-type-choices.tsx'
import type { WebhookForm } from './webhook-form.ts'

type Props = { organization: string; form: UseFormReturn<WebhookForm> }

/** The same when a webhook is created and later. */
export function WebhookFields({ organization, form }: Props) {
  const { errors } = form.formState
  return (
    <>
      <TextField
        label="URL"
        type="url"
        hint="Deliveries are sent to this address, as POST requests over https."
        placeholder="https://example.com/webhooks"
        spellCheck={false}
        error={errors.url?.message}
        {...form.register('url', {
          required: 'Enter the URL of your endpoint.',
          validate: (url) => url.trim().startsWith('https://') || 'The URL must start with https://.',
        })}
      />
      <TextField
        label="Description"
        hint="What the webhook is for. It may be empty."
        maxLength={255}
        error={errors.description?.message}
        {...form.register('description')}
      />
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
      <EventTypeChoices organization={organization} form={form} />
    </>
  )
}
