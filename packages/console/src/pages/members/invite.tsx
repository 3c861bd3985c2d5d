import type { CreatedInvitation, MemberRole } from '@keyhook/client'
import { useState } from 'react'
import { useForm } from 'react-hook-form'
import { serverUrl } from '../../address.ts'
import { client, queryClient } from '../../api/client.ts'
import { Button } from '../../components/button.tsx'
import { CopyButton } from '../../components/copy.tsx'
import { Dialog } from '../../components/dialog.tsx'
import { Field } from '../../components/field.tsx'
import { Notice } from '../../components/notice.tsx'
import { Secret } from '../../components/secret.tsx'
import { explain, fieldErrors } from '../../words/errors.ts'
import { roleNames, roleTexts } from './roles.ts'

type Props = { organization: string; roles: readonly MemberRole[]; onClose: () => void }

/** Makes a link for one person. We send no email: whoever invites passes it on. */
export function Invite({ organization, roles, onClose }: Props) {
  const [created, setCreated] = useState<CreatedInvitation | null>(null)
  const form = useForm<{ email: string; role: MemberRole }>({ defaultValues: { email: '', role: 'member' } })
  const submit = form.handleSubmit(async (values) => {
    try {
      setCreated(await client.invitations.create(values, { organization }))
      await queryClient.invalidateQueries({ queryKey: [organization, 'invitations'] })
    } catch (error) {
      const email = fieldErrors(error).get('email')
      form.setError(email === undefined ? 'root' : 'email', { message: email ?? explain(error) })
    }
  })
  if (created !== null) return <CreatedLink created={created} onClose={onClose} />
  const { errors, isSubmitting } = form.formState
  return (
    <Dialog
      title="Invite somebody"
      description="You get a link to pass on. It works once, for seven days."
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" form="invite" look="primary" busy={isSubmitting}>
            Create link
          </Button>
        </>
      }
    >
      <form id="invite" onSubmit={submit} className="stack" noValidate>
        <Field label="Email" error={errors.email?.message}>
          {(attributes) => (
            <input
              {...attributes}
              className="input"
              type="email"
              autoComplete="off"
              {...form.register('email', {
                validate: (email) => /^\S+@\S+$/.test(email.trim()) || 'Enter an email address.',
                setValueAs: (email: string) => email.trim(),
              })}
            />
          )}
        </Field>
        <fieldset className="field">
          <legend>Role</legend>
          <div>
            {roles.map((role) => (
              <label key={role} className="choice">
                <input type="radio" value={role} {...form.register('role')} />
                <span>{roleNames[role]}</span>
                <span>{roleTexts[role]}</span>
              </label>
            ))}
          </div>
        </fieldset>
        {errors.root?.message && <Notice kind="danger">{errors.root.message}</Notice>}
      </form>
    </Dialog>
  )
}

function CreatedLink({ created, onClose }: { created: CreatedInvitation; onClose: () => void }) {
  // Without a public address the server does not know its own, but this page does.
  const link = created.link.startsWith('/') ? `${serverUrl}${created.link}` : created.link
  return (
    <Dialog
      title={`Invitation for ${created.email}`}
      onClose={onClose}
      wide
      keepOpen
      footer={
        <>
          <CopyButton text={link} label="Copy link" primary />
          <Button onClick={onClose}>Done</Button>
        </>
      }
    >
      <Notice kind="warning">
        Pass this link on to {created.email} only: whoever opens it joins as {roleNames[created.role].toLowerCase()}. It
        is not shown again.
      </Notice>
      <Secret label="Link" text={link} />
    </Dialog>
  )
}
