import type { CreatedApiKey } from '@keyhook/client'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { useForm } from 'react-hook-form'
import { client } from '../../api/client.ts'
import { daysMaxOf, keyLifetimeQuery, refreshKeys } from '../../api/key-queries.ts'
import { FormDialog } from '../../components/form-dialog.tsx'
import { CreatedKey } from './created-key.tsx'
import { KeyFields } from './key-fields.tsx'
import { type KeyForm, newKeyForm, restrictionsOf } from './key-form.ts'
import { KeyPreview } from './key-summary.tsx'

type Props = { organization: string; onClose: () => void }

/** First the form, then the key: it is shown here and never again. */
export function CreateKey({ organization, onClose }: Props) {
  const [created, setCreated] = useState<CreatedApiKey | null>(null)
  const lifetime = useQuery(keyLifetimeQuery(organization))
  if (created !== null) {
    const title = `Key “${created.name}” is ready`
    return <CreatedKey title={title} organization={organization} created={created} onClose={onClose} />
  }
  // Without an answer the server still refuses what is too long.
  if (lifetime.isPending) return null
  const daysMax = daysMaxOf(lifetime.data)
  return <NewKey organization={organization} daysMax={daysMax} onCreated={setCreated} onClose={onClose} />
}

type NewKeyProps = Props & { daysMax: number | null; onCreated: (key: CreatedApiKey) => void }

function NewKey({ organization, daysMax, onCreated, onClose }: NewKeyProps) {
  const form = useForm<KeyForm>({ defaultValues: newKeyForm(daysMax) })
  return (
    <FormDialog
      title="Create API key"
      description="The key acts as you in this organization, with the role that you have at the time of each call."
      action="Create key"
      wide
      form={form}
      onSubmit={async (values) => {
        const key = { name: values.name.trim(), ...restrictionsOf(values, daysMax) }
        onCreated(await client.keys.createRestricted(key, { organization }))
        await refreshKeys(organization)
      }}
      onClose={onClose}
    >
      <KeyFields form={form} daysMax={daysMax} />
      <KeyPreview restrictions={restrictionsOf(form.watch(), daysMax)} />
    </FormDialog>
  )
}
