import type { ApiKeyDetails, CreatedApiKey } from '@keyhook/client'
import { useState } from 'react'
import { useForm } from 'react-hook-form'
import { client } from '../../api/client.ts'
import { refreshKeys } from '../../api/key-queries.ts'
import { Field } from '../../components/field.tsx'
import { FormDialog } from '../../components/form-dialog.tsx'
import { CreatedKey } from './created-key.tsx'
import { type Expiry, expiresAt, mayKeep } from './expiry.ts'
import { ExpiryField } from './expiry-field.tsx'

type Props = { organization: string; apiKey: ApiKeyDetails; daysMax: number | null; onClose: () => void }

/** How long the old key stays valid, and what is said about it afterwards. */
const overlaps = [
  { seconds: 0, option: 'Not at all', note: 'The old key is refused from now on.' },
  { seconds: 3_600, option: '1 hour', note: 'The old key stays valid for 1 hour at most.' },
  { seconds: 86_400, option: '1 day', note: 'The old key stays valid for 1 day at most.' },
  { seconds: 604_800, option: '7 days', note: 'The old key stays valid for 7 days at most.' },
]

/** First the overlap, then the new key: it is shown here and never again. */
export function RotateKey({ organization, apiKey, daysMax, onClose }: Props) {
  const [created, setCreated] = useState<CreatedApiKey | null>(null)
  const isKept = mayKeep(daysMax, apiKey.expires_at)
  const form = useForm<{ overlap_seconds: string; expires_at: Expiry }>({
    defaultValues: { overlap_seconds: '3600', expires_at: isKept ? 'keep' : String(daysMax) },
  })
  if (created !== null) {
    const overlap = overlaps.find(({ seconds }) => seconds === Number(form.getValues('overlap_seconds')))
    const texts = { title: `The new key “${created.name}” is ready`, note: overlap?.note ?? '' }
    return <CreatedKey {...texts} organization={organization} created={created} onClose={onClose} />
  }
  return (
    <FormDialog
      title={`Rotate “${apiKey.name}”`}
      description="You get a new key with the same name and the same restrictions. Use the old key until the new one is deployed."
      action="Rotate key"
      form={form}
      onSubmit={async ({ overlap_seconds, expires_at }) => {
        const rotation = {
          overlap_seconds: Number(overlap_seconds),
          ...(expires_at !== 'keep' && { expires_at: expiresAt(expires_at) }),
        }
        setCreated(await client.keys.rotate(apiKey.id, rotation, { organization }))
        await refreshKeys(organization)
      }}
      onClose={onClose}
    >
      <Field label="The old key stays valid for" error={form.formState.errors.overlap_seconds?.message}>
        {(attributes) => (
          <select {...attributes} className="input" {...form.register('overlap_seconds')}>
            {overlaps.map(({ seconds, option }) => (
              <option key={seconds} value={seconds}>
                {option}
              </option>
            ))}
          </select>
        )}
      </Field>
      <ExpiryField
        label="The new key expires"
        daysMax={daysMax}
        current={isKept ? apiKey.expires_at : undefined}
        error={form.formState.errors.expires_at?.message}
        registration={form.register('expires_at')}
      />
    </FormDialog>
  )
}
