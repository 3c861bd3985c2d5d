import { Link, Outlet, useLocation, useParams } from '@tanstack/react-router'
import { Menu as MenuIcon, Search } from 'lucide-react'
import { lazy, Suspense, useEffect, useRef, useState } from 'react'
import { type CurrentOrganization, useOrganization, useSession } from '../api/organization.ts'
import { IconButton } from '../components/button.tsx'
import { Notice } from '../components/notice.tsx'
import { NotFound, PageLoading } from './fallbacks.tsx'
import { Sidebar } from './sidebar.tsx'
import { UnconfirmedNotice } from './unconfirmed-notice.tsx'

const Drawer = lazy(() => import('./drawer.tsx'))
const Palette = lazy(() => import('./palette.tsx'))
const OpenToRead = lazy(() => import('./open-to-read.tsx'))
const PasskeyOffer = lazy(() => import('../pages/account/passkey-offer.tsx'))

export function OrganizationLayout() {
  const organization = useOrganization()
  const { operator } = useSession()
  const { orgId = '' } = useParams({ strict: false })
  if (organization !== null) return <Shell organization={organization} />
  if (!operator) return <NotFound />
  return (
    <Suspense>
      <OpenToRead id={orgId} />
    </Suspense>
  )
}

function Shell({ organization }: { organization: CurrentOrganization }) {
  const [isPaletteOpen, setPaletteOpen] = useState(false)
  const { offersPasskey } = useSession()
  const main = useRef<HTMLElement>(null)
  useShortcut(() => setPaletteOpen(true))
  const openPalette = () => setPaletteOpen(true)
  return (
    <div className="shell">
      <button type="button" className="skip-link" onClick={() => main.current?.focus()}>
        Skip to content
      </button>
      <Sidebar organization={organization} openPalette={openPalette} />
      <TopBar organization={organization} openPalette={openPalette} />
      <main ref={main} className="main" tabIndex={-1}>
        <Suspense>{offersPasskey && <PasskeyOffer />}</Suspense>
        <Suspense fallback={<PageLoading />}>
          {/* Another organization starts with fresh state. */}
          {organization.role === 'operator' && <ReadingNotice />}
          <UnconfirmedNotice />
          <Outlet key={organization.id} />
        </Suspense>
      </main>
      {isPaletteOpen && (
        <Suspense>
          <Palette organization={organization} onClose={() => setPaletteOpen(false)} />
        </Suspense>
      )}
    </div>
  )
}

/** The operator looks at somebody's organization. */
function ReadingNotice() {
  return (
    <div className="reading-notice">
      <Notice>
        You read this organization as the operator, and cannot change it.{' '}
        <Link to="/operator">Back to the overview</Link>
      </Notice>
    </div>
  )
}

/** Ctrl+K or ⌘K, and "/" outside of inputs. */
function useShortcut(open: () => void): void {
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const isTyping = event.target instanceof HTMLElement && /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)
      if ((event.key === 'k' && (event.metaKey || event.ctrlKey)) || (event.key === '/' && !isTyping)) {
        event.preventDefault()
        open()
      }
    }
    document.addEventListener('keydown', onKey)
    return () => document.removeEventListener('keydown', onKey)
  })
}

function TopBar({ organization, openPalette }: { organization: CurrentOrganization; openPalette: () => void }) {
  const [isOpen, setOpen] = useState(false)
  const { href } = useLocation()
  // biome-ignore lint/correctness/useExhaustiveDependencies: another page closes it
  useEffect(() => setOpen(false), [href])
  return (
    <header className="top-bar">
      <IconButton label="Open the menu" onClick={() => setOpen(true)}>
        <MenuIcon size={18} aria-hidden="true" />
      </IconButton>
      <span className="grow truncate organization-name">{organization.name}</span>
      <IconButton label="Search" onClick={openPalette}>
        <Search size={18} aria-hidden="true" />
      </IconButton>
      {isOpen && (
        <Suspense>
          <Drawer organization={organization} openPalette={openPalette} onClose={() => setOpen(false)} />
        </Suspense>
      )}
    </header>
  )
}
