import { Menu as Base } from '@base-ui/react/menu'
import { Ellipsis, type LucideIcon } from 'lucide-react'
import type { ReactElement, ReactNode } from 'react'
import { IconButton } from './button.tsx'

/** A menu below its trigger. */
export function Menu({
  trigger,
  children,
  align = 'start',
}: {
  trigger: ReactElement
  children: ReactNode
  align?: 'start' | 'end'
}) {
  return (
    <Base.Root modal={false}>
      <Base.Trigger render={trigger} />
      {/* It is outside of all landmarks, so it is one itself. */}
      <Base.Portal role="region" aria-label="Menu">
        <Base.Positioner className="menu-positioner" sideOffset={4} align={align}>
          <Base.Popup className="menu">{children}</Base.Popup>
        </Base.Positioner>
      </Base.Portal>
    </Base.Root>
  )
}

export function MenuItem({
  icon: Icon,
  danger = false,
  onSelect,
  render,
  children,
}: {
  icon?: LucideIcon
  danger?: boolean
  onSelect?: () => void
  /** Such as a link. */
  render?: ReactElement
  children: ReactNode
}) {
  return (
    <Base.Item className={danger ? 'menu-item menu-item-danger' : 'menu-item'} onClick={onSelect} render={render}>
      {Icon && <Icon size={15} aria-hidden="true" />}
      <span className="grow truncate">{children}</span>
    </Base.Item>
  )
}

export const MenuSeparator = () => <Base.Separator className="menu-separator" />

/** The further actions of a row. */
export function RowMenu({ label, children }: { label: string; children: ReactNode }) {
  return (
    <Menu
      align="end"
      trigger={
        <IconButton label={label}>
          <Ellipsis size={16} aria-hidden="true" />
        </IconButton>
      }
    >
      {children}
    </Menu>
  )
}
