import type { ApiKeyDetails } from '@keyhook/client'
import { useForm } from 'react-hook-form'
import { client } from '../../api/client.ts'
import { refreshKeys } from '../../api/key-queries.ts'
import { useMember, useSession } from '../../api/organization.ts'
import { FormDialog } from '../../components/form-dialog.tsx'
import { useMembers } from '../../components/person.tsx'
import { showToast } from '../../components/toasts.tsx'
import { KeyFields } from './key-fields.tsx'
import { changesOf, formOf, type KeyForm, restrictionsOf } from './key-form.ts'
import { KeyPreview } from './key-summary.tsx'

type Props = { organization: string; apiKey: ApiKeyDetails; daysMax: number | null; onClose: () => void }

export function EditKey({ organization, apiKey, daysMax, onClose }: Props) {
  const { user } = useSession()
  const mayManageServices = useMember().can('service-members:manage')
  const form = useForm<KeyForm>({ defaultValues: formOf(apiKey) })
  const values = form.watch()
  const isOwn = apiKey.created_by === user?.id
  const isOfService = useMembers()?.some((one) => one.service && one.user_id === apiKey.created_by)
  const mayWiden = isOwn || (isOfService && mayManageServices)
  return (
    <FormDialog
      title={`Edit “${apiKey.name}”`}
      description={
        mayWiden
          ? 'The changes hold for every request that starts after you save.'
          : `The changes hold for every request that starts after you save. You can rename this key and allow it less; only ${isOfService ? 'an owner' : 'its user'} can allow it more.`
      }
      action="Save"
      wide
      disabled={Object.keys(changesOf(values, apiKey)).length === 0}
      form={form}
      onSubmit={async (submitted) => {
        const changed = await client.keys.update(apiKey.id, changesOf(submitted, apiKey), { organization })
        await refreshKeys(organization)
        showToast({ title: `“${changed.name}” was changed` })
        onClose()
      }}
      onClose={onClose}
    >
      <KeyFields form={form} daysMax={daysMax} current={apiKey.expires_at} isOwn={isOwn} />
      <KeyPreview restrictions={restrictionsOf(values, apiKey)} />
    </FormDialog>
  )
}
