import { Menu as Base } from '@base-ui/react/menu'
import type { LucideIcon } from 'lucide-react'
import type { HTMLAttributes, ReactElement, ReactNode } from 'react'

export type MenuProps = {
  trigger: ReactElement<HTMLAttributes<HTMLElement>>
  children: ReactNode
  align?: 'start' | 'end'
}

export type MenuItemProps = {
  icon?: LucideIcon
  danger?: boolean
  onSelect?: () => void
  /** Such as a link. */
  render?: ReactElement
  children: ReactNode
}

/** Open when it appears, in the place of a trigger that was clicked. */
export const OpenedMenu = ({ trigger, children, align = 'start' }: MenuProps) => (
  <Base.Root modal={false} defaultOpen>
    <Base.Trigger render={trigger} />
    {/* It is outside of all landmarks, so it is one itself. */}
    <Base.Portal role="region" aria-label="Menu">
      <Base.Positioner className="menu-positioner" sideOffset={4} align={align}>
        <Base.Popup className="menu">{children}</Base.Popup>
      </Base.Positioner>
    </Base.Portal>
  </Base.Root>
)

export const Item = ({ icon: Icon, danger = false, onSelect, render, children }: MenuItemProps) => (
  <Base.Item className={danger ? 'menu-item menu-item-danger' : 'menu-item'} onClick={onSelect} render={render}>
    {Icon && <Icon size={15} aria-hidden="true" />}
    <span className="grow truncate">{children}</span>
  </Base.Item>
)

export const Separator = () => <Base.Separator className="menu-separator" />
