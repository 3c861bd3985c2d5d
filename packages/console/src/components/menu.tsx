import { Ellipsis } from 'lucide-react'
import { cloneElement, type ReactNode, useState } from 'react'
import { IconButton } from './button.tsx'
import type { MenuItemProps, MenuProps } from './menu-parts.tsx'
import { toastError } from './toasts.tsx'

/** Loaded when a trigger is pointed at or has the focus: menus are a quarter of all script, and a page begins without one. */
let parts: typeof import('./menu-parts.tsx') | null = null
const load = async (): Promise<void> => {
  parts ??= await import('./menu-parts.tsx')
}
const prepare = (): void => void load().catch(() => {})

/** A menu below its trigger. */
export function Menu(props: MenuProps) {
  const [isOpened, setOpened] = useState(false)
  if (isOpened && parts !== null) return <parts.OpenedMenu {...props} />
  return cloneElement(props.trigger, {
    'aria-haspopup': 'menu',
    'aria-expanded': false,
    onPointerEnter: prepare,
    onFocus: prepare,
    onClick: () => void load().then(() => setOpened(true), toastError('The menu could not be opened')),
  })
}

/** These are shown in an opened menu only, so its parts are there. */
export const MenuItem = (props: MenuItemProps) => parts && <parts.Item {...props} />

export const MenuSeparator = () => parts && <parts.Separator />

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
