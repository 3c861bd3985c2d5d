import { Link, Outlet } from '@tanstack/react-router'
import { Building2, Gauge, KeySquare, type LucideIcon, Users } from 'lucide-react'
import { Suspense } from 'react'
import { useSession } from '../api/organization.ts'
import { NotFound, PageLoading } from './fallbacks.tsx'
import { UserMenu } from './user-menu.tsx'

const pages: readonly {
  to: '/operator' | '/operator/organizations' | '/operator/users' | '/operator/tokens'
  label: string
  icon: LucideIcon
}[] = [
  { to: '/operator', label: 'Overview', icon: Gauge },
  { to: '/operator/organizations', label: 'Organizations', icon: Building2 },
  { to: '/operator/users', label: 'Users', icon: Users },
  { to: '/operator/tokens', label: 'Operator tokens', icon: KeySquare },
]

/** The pages of the operator of the installation, who belongs to no organization. */
export function OperatorLayout() {
  if (!useSession().operator) return <NotFound />
  return (
    <div className="shell shell-operator">
      <div className="sidebar">
        <header className="organization-button">
          <span className="organization-mark" aria-hidden="true">
            K
          </span>
          <span className="grow truncate organization-name">Operator</span>
        </header>
        <nav aria-label="Main">
          <ul>
            {pages.map(({ to, label, icon: Icon }) => (
              <li key={to}>
                <Link to={to} className="nav-link" activeOptions={{ exact: true }}>
                  <Icon size={16} aria-hidden="true" />
                  {label}
                </Link>
              </li>
            ))}
          </ul>
        </nav>
        <UserMenu />
      </div>
      <main className="main">
        <Suspense fallback={<PageLoading />}>
          <Outlet />
        </Suspense>
      </main>
    </div>
  )
}
