import { Link, useParams } from '@tanstack/react-router'
import { Check, ChevronsUpDown, CircleUser, LogOut, Monitor, Moon, Sun } from 'lucide-react'
import { queryClient } from '../api/client.ts'
import { useSession } from '../api/organization.ts'
import { signOut } from '../api/session.ts'
import { Menu, MenuItem, MenuSeparator } from '../components/menu.tsx'
import { toastError } from '../components/toasts.tsx'
import { setTheme, type Theme, useTheme } from '../theme.ts'

const themes: readonly { theme: Theme; label: string; icon: typeof Sun }[] = [
  { theme: 'system', label: 'Theme of the system', icon: Monitor },
  { theme: 'light', label: 'Light', icon: Sun },
  { theme: 'dark', label: 'Dark', icon: Moon },
]

/** Who is signed in, their account, the theme, and sign-out. */
export function UserMenu() {
  const { user } = useSession()
  const theme = useTheme()
  const { orgId } = useParams({ strict: false })
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
      <MenuItem
        icon={CircleUser}
        render={orgId ? <Link to="/$orgId/account" params={{ orgId }} /> : <Link to="/account" />}
      >
        Your account
      </MenuItem>
      <MenuSeparator />
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
