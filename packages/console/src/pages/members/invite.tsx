import type { CreatedInvitation, MemberRole } from '@keyhook/client'
import { useState } from 'react'
import { useForm } from 'react-hook-form'
import { serverUrl } from '../../address.ts'
import { client, queryClient } from '../../api/client.ts'
import { TextField } from '../../components/field.tsx'
import { FormDialog } from '../../components/form-dialog.tsx'
import { Secret } from '../../components/secret.tsx'
import { ShownOnce } from '../../components/shown-once.tsx'
import { RoleField } from './role-field.tsx'
import { roleNames } from './roles.ts'

type Props = { organization: string; roles: readonly MemberRole[]; onClose: () => void }

/** Makes a link for one person. We send no email: whoever invites passes it on. */
export function Invite({ organization, roles, onClose }: Props) {
  const [created, setCreated] = useState<CreatedInvitation | null>(null)
  const form = useForm<{ email: string; role: MemberRole }>({ defaultValues: { email: '', role: 'member' } })
  if (created !== null) return <CreatedLink created={created} onClose={onClose} />
  return (
    <FormDialog
      title="Invite somebody"
      description="You get a link to pass on. It works once, for seven days."
      action="Create link"
      form={form}
      onSubmit={async (values) => {
        setCreated(await client.invitations.create(values, { organization }))
        await queryClient.invalidateQueries({ queryKey: [organization, 'invitations'] })
      }}
      onClose={onClose}
    >
      <TextField
        label="Email"
        type="email"
        error={form.formState.errors.email?.message}
        {...form.register('email', {
          validate: (email) => /^\S+@\S+$/.test(email.trim()) || 'Enter an email address.',
          setValueAs: (email: string) => email.trim(),
        })}
      />
      <RoleField roles={roles} registration={form.register('role')} />
    </FormDialog>
  )
}

function CreatedLink({ created, onClose }: { created: CreatedInvitation; onClose: () => void }) {
  // Without a public address the server does not know its own, but this page does.
  const link = created.link.startsWith('/') ? `${serverUrl}${created.link}` : created.link
  return (
    <ShownOnce
      title={`Invitation for ${created.email}`}
      warning={
        <>
          Pass this link on to {created.email} only: whoever opens it joins as {roleNames[created.role].toLowerCase()}.
          It is not shown again.
        </>
      }
      copy={{ text: link, label: 'Copy link' }}
      onClose={onClose}
    >
      <Secret label="Link" text={link} />
    </ShownOnce>
  )
}
