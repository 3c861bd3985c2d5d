import { useMutation } from '@tanstack/react-query'
import { useLocation, useNavigate } from '@tanstack/react-router'
import { KeySquare } from 'lucide-react'
import { queryClient, sessionQuery } from '../api/client.ts'
import { signInWithPasskey } from '../api/passkeys.ts'
import type { PasskeySupport } from '../api/session.ts'
import { explain } from '../words/errors.ts'
import { Button } from './button.tsx'
import { Notice } from './notice.tsx'
import { PasskeysMissing, whyMissing } from './passkeys-missing.tsx'

/** Signs in, and shows the page that somebody wanted to see. */
export function PasskeySignIn({ support, look = 'primary' }: { support: PasskeySupport; look?: 'primary' | 'plain' }) {
  const navigate = useNavigate()
  const { pathname } = useLocation()
  const signIn = useMutation({
    mutationFn: signInWithPasskey,
    onSuccess: async () => {
      await queryClient.resetQueries({ queryKey: sessionQuery.queryKey })
      if (pathname === '/sign-in') await navigate({ to: '/', replace: true })
    },
  })
  if (whyMissing(support) !== null) return <PasskeysMissing support={support} />
  return (
    <>
      {signIn.error !== null && <Notice kind="danger">{explain(signIn.error)}</Notice>}
      <Button look={look} busy={signIn.isPending} onClick={() => signIn.mutate()}>
        <KeySquare size={16} aria-hidden="true" />
        Sign in with a passkey
      </Button>
    </>
  )
}
