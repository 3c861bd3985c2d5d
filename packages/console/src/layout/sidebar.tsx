import { Link } from '@tanstack/react-router'
import { Check, ChevronsUpDown, LogOut, Monitor, Moon, Search, Sun } from 'lucide-react'
import { queryClient } from '../api/client.ts'
import { type CurrentOrganization, useSession } from '../api/organization.ts'
import { signOut } from '../api/session.ts'
import { Menu, MenuItem, MenuSeparator } from '../components/menu.tsx'
import { toastError } from '../components/toasts.tsx'
import { setTheme, type Theme, useTheme } from '../theme.ts'
import { destinations } from './navigation.ts'

export function Sidebar({ organization, openPalette }: { organization: CurrentOrganization; openPalette: () => void }) {
  return (
    <div className="sidebar">
      <OrganizationMenu organization={organization} />
      <button type="button" className="search-button" onClick={openPalette}>
        <Search size={15} aria-hidden="true" />
        Search <kbd>{isMac ? '⌘K' : 'Ctrl K'}</kbd>
      </button>
      <nav aria-label="Main">
        {destinations.map(({ group, pages }) => {
          const shown = pages.filter(({ needs }) => needs === undefined || organization.can(needs))
          if (shown.length === 0) return null
          return (
            <div key={group} className="nav-group">
              {group && <h2>{group}</h2>}
              <ul>
                {shown.map(({ to, label, icon: Icon }) => (
                  <li key={to}>
                    <Link
                      to={to}
                      params={{ orgId: organization.id }}
                      className="nav-link"
                      activeOptions={{ exact: to === '/$orgId', includeSearch: false }}
                    >
                      <Icon size={16} aria-hidden="true" />
                      {label}
                    </Link>
                  </li>
                ))}
              </ul>
            </div>
          )
        })}
      </nav>
      <UserMenu />
    </div>
  )
}

const isMac = /Mac|iPhone|iPad/.test(navigator.userAgent)

function OrganizationMenu({ organization }: { organization: CurrentOrganization }) {
  const { organizations } = useSession()
  return (
    <Menu
      trigger={
        <button type="button" className="organization-button">
          <span className="organization-mark" aria-hidden="true">
            {organization.name.slice(0, 1).toUpperCase()}
          </span>
          <span className="grow truncate organization-name">
            <span className="visually-hidden">Organization</span> {organization.name}
          </span>
          <ChevronsUpDown size={14} className="muted" aria-hidden="true" />
        </button>
      }
    >
      <div className="menu-label">Organizations</div>
      {organizations.map(({ id, name }) => (
        <MenuItem
          key={id}
          icon={id === organization.id ? Check : undefined}
          render={<Link to="/$orgId" params={{ orgId: id }} />}
        >
          {name}
        </MenuItem>
      ))}
    </Menu>
  )
}

const themes: readonly { theme: Theme; label: string; icon: typeof Sun }[] = [
  { theme: 'system', label: 'Theme of the system', icon: Monitor },
  { theme: 'light', label: 'Light', icon: Sun },
  { theme: 'dark', label: 'Dark', icon: Moon },
]

function UserMenu() {
  const { user } = useSession()
  const theme = useTheme()
  const leave = (everywhere: boolean) => {
    signOut(everywhere).then(() => queryClient.resetQueries(), toastError('You are still signed in'))
  }
  const name = user === null ? 'Operator' : (user.name ?? user.email ?? user.id)
  return (
    <Menu
      trigger={
        <button type="button" className="organization-button">
          <span className="grow truncate small muted">
            <span className="visually-hidden">Account</span> {name}
          </span>
          <ChevronsUpDown size={14} className="muted" aria-hidden="true" />
        </button>
      }
    >
      {themes.map((one) => (
        <MenuItem key={one.theme} icon={one.theme === theme ? Check : one.icon} onSelect={() => setTheme(one.theme)}>
          {one.label}
        </MenuItem>
      ))}
      <MenuSeparator />
      <MenuItem icon={LogOut} onSelect={() => leave(false)}>
        Sign out
      </MenuItem>
      <MenuItem icon={LogOut} onSelect={() => leave(true)}>
        Sign out everywhere
      </MenuItem>
    </Menu>
  )
}
