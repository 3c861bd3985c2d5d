import { KeyhookError } from '@keyhook/client'
import { useQuery } from '@tanstack/react-query'
import { Outlet, useLocation } from '@tanstack/react-router'
import { lazy, Suspense } from 'react'
import { sessionQuery } from '../api/client.ts'
import { useIsServerAway } from '../api/server-away.ts'
import { Notice } from '../components/notice.tsx'
import { ErrorState } from '../components/states.tsx'

const SignInPage = lazy(() => import('../pages/sign-in-page.tsx'))
const MailedLinkPage = lazy(() => import('../pages/mailed-link-page.tsx'))
const InvitationPage = lazy(() => import('../pages/invitation-page.tsx'))

export const RootLayout = () => (
  <>
    <Pages />
    <AwayNotice />
  </>
)

function AwayNotice() {
  if (!useIsServerAway()) return null
  return (
    <div className="away" role="status">
      <Notice kind="warning">
        The server cannot be reached. This page continues by itself when the server answers again.
      </Notice>
    </div>
  )
}

/** Shows the pages to those who are signed in. */
function Pages() {
  const session = useQuery(sessionQuery)
  const { pathname } = useLocation()
  if (pathname === '/mailed-sign-in' || pathname === '/confirm-address') {
    return (
      <Suspense>
        <MailedLinkPage path={pathname} />
      </Suspense>
    )
  }
  if (pathname === '/invitation') {
    return (
      <Suspense>
        <InvitationPage />
      </Suspense>
    )
  }
  if (pathname === '/sign-in' || (session.error instanceof KeyhookError && session.error.status === 401)) {
    return (
      <Suspense>
        <SignInPage />
      </Suspense>
    )
  }
  if (session.data !== undefined) return <Outlet />
  if (session.error !== null) {
    return (
      <main className="center-page">
        <ErrorState isPage error={session.error} retry={session.refetch} what="The console" />
      </main>
    )
  }
  return null
}
