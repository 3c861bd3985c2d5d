import { useNavigate } from '@tanstack/react-router'
import { useEffect, useState } from 'react'
import { basePath } from '../address.ts'
import { queryClient, sessionQuery } from '../api/client.ts'
import { signIn } from '../api/session.ts'
import { useSignInWays } from '../api/sign-in-ways.ts'
import { Code } from '../components/code.tsx'
import { MailSignIn } from '../components/mail-sign-in.tsx'
import { Notice } from '../components/notice.tsx'
import { PasskeySignIn } from '../components/passkey-sign-in.tsx'
import { SingleSignOn } from '../components/single-sign-on.tsx'
import { clearToasts } from '../components/toasts.tsx'
import { explainLink } from '../words/errors.ts'

/** The secret of a one-time link is in the fragment, which browsers send to nobody. */
let secret = location.pathname === `${basePath}/sign-in` ? location.hash.slice(1) : ''
if (secret !== '') history.replaceState(null, '', location.pathname)

/** Why the OpenID issuer's answer did not lead to a session. */
const refusals: Record<string, string> = {
  refused: 'Signing in was cancelled, or your issuer refused it. Try again.',
  unknown_user:
    'Your issuer signed you in, but Keyhook has no user for you. Ask an owner of an organization to invite you.',
}
const refusal = refusals[new URLSearchParams(location.search).get('error') ?? '']

export default function SignInPage() {
  const [error, setError] = useState<unknown>(null)
  const navigate = useNavigate()
  useEffect(() => {
    document.title = 'Sign in · Keyhook'
    clearToasts()
    if (secret === '') return
    exchange(secret)
      .then(async () => {
        await queryClient.resetQueries({ queryKey: sessionQuery.queryKey })
        await navigate({ to: '/', replace: true })
      }, setError)
      // Whoever signs out comes back to this page, and is not signed in again.
      .finally(() => {
        secret = ''
      })
  }, [navigate])
  return (
    <main className="center-page">
      <div className="center-card">
        <h1>{secret !== '' && error === null ? 'Signing you in…' : 'Sign in to Keyhook'}</h1>
        {error !== null && <Notice kind="danger">{explainLink(error, 10)}</Notice>}
        {refusal !== undefined && <Notice kind="danger">{refusal}</Notice>}
        {(secret === '' || error !== null) && <Ways />}
      </div>
    </main>
  )
}

/** A link works once, so React's second run of an effect must not use it again. */
let exchanged: Promise<void> | null = null
function exchange(text: string): Promise<void> {
  exchanged ??= signIn(text)
  return exchanged
}

/** The page that somebody wanted to see, who has to sign in first. */
const pageShown = (): string =>
  location.pathname === `${basePath}/sign-in` ? '' : location.pathname.slice(basePath.length + 1) + location.search

function Ways() {
  const way = useSignInWays()
  if (way.isPending) return null
  const passkeys = way.data?.passkeys
  return (
    <>
      {passkeys && <PasskeySignIn support={passkeys} />}
      {way.data?.openid ? (
        <>
          <p className="muted">Use the account of your organization.</p>
          <SingleSignOn returnTo={pageShown()} />
        </>
      ) : (
        <>
          {way.data?.mail_sign_in && <MailSignIn />}
          <LinkHelp isLast={Boolean(passkeys) || way.data?.mail_sign_in === true} />
        </>
      )}
    </>
  )
}

const LinkHelp = ({ isLast }: { isLast: boolean }) => (
  <>
    <p className="muted">
      {isLast ? 'Otherwise open' : 'Open'} the link that the server printed when it started. For a new link, run this
      command where the server runs:
    </p>
    <Code text="npx keyhook console link --user EMAIL" label="Copy the command" wrap />
  </>
)
