import type { CreatedApiKey, OrganizationMember } from '@keyhook/client'
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

type Props = {
  organization: string
  /** The service member that the key acts as; without one it acts as the user of this page. */
  actsAs?: OrganizationMember
  onClose: () => void
}

/** First the form, then the key: it is shown here and never again. */
export function CreateKey({ organization, actsAs, onClose }: Props) {
  const [created, setCreated] = useState<CreatedApiKey | null>(null)
  const lifetime = useQuery(keyLifetimeQuery(organization))
  if (created !== null) {
    const title = `Key “${created.name}” is ready`
    return <CreatedKey title={title} organization={organization} created={created} onClose={onClose} />
  }
  // Without an answer the server still refuses what is too long.
  if (lifetime.isPending) return null
  const daysMax = daysMaxOf(lifetime.data)
  return <NewKey {...{ organization, actsAs, daysMax, onClose }} onCreated={setCreated} />
}

type NewKeyProps = Props & { daysMax: number | null; onCreated: (key: CreatedApiKey) => void }

function NewKey({ organization, actsAs, daysMax, onCreated, onClose }: NewKeyProps) {
  const form = useForm<KeyForm>({ defaultValues: newKeyForm(daysMax) })
  return (
    <FormDialog
      title={actsAs ? `Create API key for ${actsAs.name}` : 'Create API key'}
      description={`The key acts as ${actsAs ? `the service member “${actsAs.name}”` : 'you'} in this organization, with the role that ${actsAs ? 'it has' : 'you have'} at the time of each call.`}
      action="Create key"
      wide
      form={form}
      onSubmit={async (values) => {
        const key = { name: values.name.trim(), ...restrictionsOf(values) }
        const created = actsAs
          ? client.serviceMembers.createKey(actsAs.user_id, key, { organization })
          : client.keys.createRestricted(key, { organization })
        onCreated(await created)
        await refreshKeys(organization)
      }}
      onClose={onClose}
    >
      <KeyFields form={form} daysMax={daysMax} isOwn={actsAs === undefined} />
      <KeyPreview restrictions={restrictionsOf(form.watch())} />
    </FormDialog>
  )
}
