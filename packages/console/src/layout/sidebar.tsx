import { Link } from '@tanstack/react-router'
import { Check, ChevronsUpDown, Search } from 'lucide-react'
import { type CurrentOrganization, useSession } from '../api/organization.ts'
import { Menu, MenuItem } from '../components/menu.tsx'
import { destinations } from './navigation.ts'
import { UserMenu } from './user-menu.tsx'

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
