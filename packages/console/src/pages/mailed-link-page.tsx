import { useMutation } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useEffect } from 'react'
import { basePath, consolePath } from '../address.ts'
import { queryClient, sessionQuery } from '../api/client.ts'
import { confirmAddress, signIn } from '../api/session.ts'
import { Button } from '../components/button.tsx'
import { Notice } from '../components/notice.tsx'
import { showToast } from '../components/toasts.tsx'
import { explain, explainLink } from '../words/errors.ts'

const kinds = {
  '/mailed-sign-in': {
    title: 'Sign in to Keyhook',
    text: 'Continue with the link that was mailed to you.',
    action: 'Sign in',
    use: (link: string) => signIn(link, true),
  },
  '/confirm-address': {
    title: 'Confirm your address',
    text: 'The link was mailed to the address. You have to be signed in as its user, in this browser. Your other sessions end and your passkeys are removed: somebody else may have made them. Add a passkey again afterwards.',
    action: 'Confirm the address',
    use: confirmAddress,
  },
} as const

type Path = keyof typeof kinds
const isMailedLink = (pathname: string): pathname is Path => Object.hasOwn(kinds, pathname)

/** In the fragment, which browsers send to nobody. Removed from the address, so that a copied address does not contain it. */
const secret = isMailedLink(location.pathname.slice(basePath.length)) ? location.hash.slice(1) : ''
if (secret !== '') history.replaceState(null, '', location.pathname)

/** A button, because programs that look for viruses open every link of a mail, and this one works once. */
export default function MailedLinkPage({ path }: { path: Path }) {
  const { title, text, action, use } = kinds[path]
  const isSignIn = path === '/mailed-sign-in'
  const navigate = useNavigate()
  const using = useMutation({
    mutationFn: () => use(secret),
    onSuccess: async () => {
      await queryClient.resetQueries({ queryKey: sessionQuery.queryKey })
      if (path === '/confirm-address') showToast({ title: 'The address is confirmed' })
      await navigate({ to: '/', replace: true })
    },
  })
  useEffect(() => {
    document.title = `${title} · Keyhook`
  }, [title])
  return (
    <main className="center-page">
      <div className="center-card">
        <h1>{title}</h1>
        <p className="muted">{text}</p>
        {using.error !== null && (
          <Notice kind="danger">{isSignIn ? explainLink(using.error, 15) : explain(using.error)}</Notice>
        )}
        <Button look="primary" busy={using.isPending} onClick={() => using.mutate()}>
          {action}
        </Button>
        {using.error !== null && isSignIn && (
          <a className="button" href={consolePath('/sign-in')}>
            Ask for another link
          </a>
        )}
      </div>
    </main>
  )
}
