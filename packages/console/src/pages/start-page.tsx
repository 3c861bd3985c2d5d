import { Link, Navigate } from '@tanstack/react-router'
import { Building2 } from 'lucide-react'
import { useSession } from '../api/organization.ts'
import { EmptyState } from '../components/states.tsx'

/** Goes to the first organization. */
export function StartPage() {
  const { organizations, user, operator } = useSession()
  if (operator) return <Navigate to="/operator" replace />
  const [first] = organizations
  if (first !== undefined) return <Navigate to="/$orgId" params={{ orgId: first.id }} replace />
  return (
    <main className="center-page">
      <EmptyState
        isPage
        icon={Building2}
        title="You are in no organization"
        action={
          <Link to="/account" className="button">
            Your account
          </Link>
        }
      >
        Ask an owner or admin of an organization to invite {user?.email ?? 'you'}, then reload this page.
      </EmptyState>
    </main>
  )
}
