import { useMutation } from '@tanstack/react-query'
import { useSession } from '../api/organization.ts'
import { mailConfirmation } from '../api/session.ts'
import { useSignInWays } from '../api/sign-in-ways.ts'
import { Button } from '../components/button.tsx'
import { Notice } from '../components/notice.tsx'
import { toastError } from '../components/toasts.tsx'

/** For somebody who came by the link of an invitation, where the server sends mail. */
export function UnconfirmedNotice() {
  const { user } = useSession()
  const ways = useSignInWays()
  const asking = useMutation({ mutationFn: mailConfirmation, onError: toastError('No mail was sent') })
  if (user === null || user.verified || !ways.data?.mail) return null
  return (
    <div className="reading-notice">
      <Notice kind="warning">
        {asking.isSuccess ? (
          `A link is sent to ${user.email}. Open it in this browser within 24 hours.`
        ) : (
          <>
            Your address {user.email} is not confirmed. Until then you belong to this organization only.{' '}
            <Button small busy={asking.isPending} onClick={() => asking.mutate()}>
              E-mail me a link
            </Button>
          </>
        )}
      </Notice>
    </div>
  )
}
