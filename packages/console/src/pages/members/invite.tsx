import type { CreatedInvitation, MemberRole } from '@keyhook/client'
import { useState } from 'react'
import { useForm } from 'react-hook-form'
import { serverUrl } from '../../address.ts'
import { client, queryClient } from '../../api/client.ts'
import { useSignInWays } from '../../api/sign-in-ways.ts'
import { TextField } from '../../components/field.tsx'
import { FormDialog } from '../../components/form-dialog.tsx'
import { Secret } from '../../components/secret.tsx'
import { ShownOnce } from '../../components/shown-once.tsx'
import { showToast } from '../../components/toasts.tsx'
import { RoleField } from './role-field.tsx'
import { roleNames } from './roles.ts'

const bys = {
  link: ['Pass it on yourself', 'You see the link, so it does not confirm the address.'],
  mail: ['Send it by mail', 'Only the address gets the link. Accepting it confirms the address.'],
} as const

type Values = { email: string; role: MemberRole; by: keyof typeof bys }
type Props = { organization: string; roles: readonly MemberRole[]; onClose: () => void }

/** Invites one person: by a link that whoever invites passes on, or by mail where the server sends it. */
export function Invite({ organization, roles, onClose }: Props) {
  const [created, setCreated] = useState<CreatedInvitation | null>(null)
  const ways = useSignInWays()
  const form = useForm<Values>({ defaultValues: { email: '', role: 'member', by: 'link' } })
  const byMail = form.watch('by') === 'mail'
  if (created !== null) return <CreatedLink created={created} link={created.link ?? ''} onClose={onClose} />
  return (
    <FormDialog
      title="Invite somebody"
      description={`${byMail ? 'The link is sent to the address.' : 'You get a link to pass on.'} It works once, for seven days.`}
      action={byMail ? 'Send invitation' : 'Create link'}
      form={form}
      onSubmit={async ({ by, ...values }) => {
        const mail = by === 'mail'
        const made = await client.invitations.create({ ...values, ...(mail && { mail }) }, { organization })
        await queryClient.invalidateQueries({ queryKey: [organization, 'invitations'] })
        if (!mail) return setCreated(made)
        showToast({ title: `The invitation is sent to ${made.email}` })
        onClose()
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
      {ways.data?.mail && (
        <fieldset className="field">
          <legend>Link</legend>
          <div>
            {Object.entries(bys).map(([by, [name, text]]) => (
              <label key={by} className="choice">
                <input type="radio" value={by} {...form.register('by')} />
                <span>{name}</span>
                <span>{text}</span>
              </label>
            ))}
          </div>
        </fieldset>
      )}
    </FormDialog>
  )
}

type Created = { created: CreatedInvitation; link: string; onClose: () => void }

function CreatedLink({ created, link: given, onClose }: Created) {
  // Without a public address the server does not know its own, but this page does.
  const link = given.startsWith('/') ? `${serverUrl}${given}` : given
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
