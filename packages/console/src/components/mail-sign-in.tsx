import { useState } from 'react'
import { useForm } from 'react-hook-form'
import { mailSignInLink } from '../api/session.ts'
import { explain } from '../words/errors.ts'
import { Button } from './button.tsx'
import { TextField } from './field.tsx'
import { Notice } from './notice.tsx'

/** Sends a link to sign in. The server answers alike for every address. */
export function MailSignIn() {
  const form = useForm<{ email: string }>({ defaultValues: { email: '' } })
  const [sentTo, setSentTo] = useState<string | null>(null)
  const [error, setError] = useState<unknown>(null)
  const submit = form.handleSubmit(async ({ email }) => {
    setError(null)
    await mailSignInLink(email).then(() => setSentTo(email), setError)
  })
  return (
    <form className="stack" noValidate onSubmit={submit}>
      {error !== null && <Notice kind="danger">{explain(error)}</Notice>}
      {sentTo !== null && (
        <Notice>
          If {sentTo} is the confirmed address of a user, a link is sent there. It works once, for 15 minutes.
        </Notice>
      )}
      <TextField
        label="Email"
        type="email"
        autoComplete="email"
        error={form.formState.errors.email?.message}
        {...form.register('email', {
          validate: (email) => /^\S+@\S+$/.test(email.trim()) || 'Enter an email address.',
          setValueAs: (email: string) => email.trim(),
        })}
      />
      <Button type="submit" look="primary" busy={form.formState.isSubmitting}>
        E-mail me a sign-in link
      </Button>
    </form>
  )
}
