import type { NewServiceMember } from '@keyhook/client'
import { useForm } from 'react-hook-form'
import { client, queryClient } from '../../api/client.ts'
import { TextField } from '../../components/field.tsx'
import { FormDialog } from '../../components/form-dialog.tsx'
import { showToast } from '../../components/toasts.tsx'
import { RoleField } from './role-field.tsx'

type Props = { organization: string; onClose: () => void }

export function CreateServiceMember({ organization, onClose }: Props) {
  const form = useForm<NewServiceMember>({ defaultValues: { name: '', role: 'member' } })
  return (
    <FormDialog
      title="Create service member"
      description="Nobody can sign in as it. Owners create API keys that act as it, with its role."
      action="Create service member"
      form={form}
      onSubmit={async ({ name, role }) => {
        await client.serviceMembers.create({ name: name.trim(), role }, { organization })
        await queryClient.invalidateQueries({ queryKey: [organization, 'members'] })
        showToast({ title: `“${name.trim()}” is a service member now` })
        onClose()
      }}
      onClose={onClose}
    >
      <TextField
        label="Name"
        hint="What uses the keys, such as “deploy pipeline”."
        error={form.formState.errors.name?.message}
        {...form.register('name', { validate: (text) => text.trim() !== '' || 'Give the service member a name.' })}
      />
      <RoleField roles={['admin', 'member']} registration={form.register('role')} />
    </FormDialog>
  )
}
