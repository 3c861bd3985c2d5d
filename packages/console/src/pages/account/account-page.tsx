import { Navigate } from '@tanstack/react-router'
import { useSession } from '../../api/organization.ts'
import { PageHeader } from '../../components/page.tsx'
import { OwnSessions } from './own-sessions.tsx'
import { Passkeys } from './passkeys.tsx'

/** What belongs to a person and not to an organization: how they sign in, and where they are signed in. */
export function AccountPage() {
  const { user } = useSession()
  const who = user === null ? 'The operator signs in by a link only.' : (user.email ?? user.id)
  return (
    <>
      <PageHeader title="Your account" description={user?.name ? `${user.name}, ${who}` : who} />
      <div className="stack">
        {user && <Passkeys />}
        <OwnSessions />
      </div>
    </>
  )
}

/** The same address for everybody: beside an organization, if there is one. */
export function AnyAccountPage() {
  const { operator, organizations } = useSession()
  const [first] = organizations
  if (operator) return <Navigate to="/operator/account" replace />
  if (first !== undefined) return <Navigate to="/$orgId/account" params={{ orgId: first.id }} replace />
  return (
    <main className="main">
      <AccountPage />
    </main>
  )
}
