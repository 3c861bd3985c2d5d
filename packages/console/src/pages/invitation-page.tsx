import { useMutation, useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useEffect } from 'react'
import { basePath } from '../address.ts'
import { queryClient, sessionQuery } from '../api/client.ts'
import { acceptInvitation, fetchInvitation } from '../api/session.ts'
import { useSignInWays } from '../api/sign-in-ways.ts'
import { Button } from '../components/button.tsx'
import { Notice } from '../components/notice.tsx'
import { PasskeySignIn } from '../components/passkey-sign-in.tsx'
import { SingleSignOn } from '../components/single-sign-on.tsx'
import { explain } from '../words/errors.ts'

/** In the fragment, which browsers send to nobody. Removed from the address, so that a copied address does not contain it. */
const secret = location.pathname === `${basePath}/invitation` ? location.hash.slice(1) : ''
if (secret !== '') history.replaceState(null, '', location.pathname)

export default function InvitationPage() {
  const navigate = useNavigate()
  const invitation = useQuery({
    queryKey: ['invitation'],
    queryFn: () => fetchInvitation(secret),
    staleTime: Number.POSITIVE_INFINITY,
  })
  const { data: session, isPending } = useQuery({ ...sessionQuery, refetchInterval: false })
  const way = useSignInWays()
  // With an OpenID issuer an invitation creates no user.
  const mustSignIn = way.data?.openid === true && !isPending && session === undefined
  const accept = useMutation({
    mutationFn: () => acceptInvitation(secret),
    onSuccess: async ({ organization_id: orgId }) => {
      await queryClient.resetQueries({ queryKey: sessionQuery.queryKey })
      await navigate({ to: '/$orgId', params: { orgId }, replace: true })
    },
  })
  useEffect(() => {
    document.title = 'Invitation · Keyhook'
  }, [])
  const error = invitation.error ?? accept.error
  return (
    <main className="center-page">
      <div className="center-card">
        <h1>{invitation.data ? `Join ${invitation.data.organization}` : 'Invitation'}</h1>
        {invitation.data && (
          <p className="muted">
            {invitation.data.email} is invited as {invitation.data.role}.{' '}
            {session?.user && `You join as ${session.user.name ?? session.user.email ?? session.user.id}.`}
          </p>
        )}
        {error !== null && <Notice kind="danger">{explain(error)}</Notice>}
        {invitation.data && mustSignIn && (
          <>
            <p className="muted">Sign in first. You come back to this invitation.</p>
            <SingleSignOn returnTo={`invitation#${secret}`} />
          </>
        )}
        {invitation.data && !mustSignIn && (
          <Button look="primary" busy={accept.isPending} onClick={() => accept.mutate()}>
            Accept invitation
          </Button>
        )}
        {invitation.data && !isPending && session === undefined && way.data?.passkeys?.missing === null && (
          <>
            <p className="muted small">Are you a user here already? Then sign in first.</p>
            <PasskeySignIn support={way.data.passkeys} look="plain" />
          </>
        )}
      </div>
    </main>
  )
}
