import { Dialog as Base } from '@base-ui/react/dialog'
import type { ReactNode } from 'react'

type DialogProps = {
  title: string
  description?: ReactNode | undefined
  children?: ReactNode
  footer?: ReactNode
  onClose: () => void
  wide?: boolean
  /** For what is shown once: a click beside the dialog must not lose it. */
  keepOpen?: boolean
}

/** Open while it is rendered. */
export function Dialog({ title, description, children, footer, onClose, wide = false, keepOpen = false }: DialogProps) {
  return (
    <Base.Root open onOpenChange={(isOpen) => !isOpen && onClose()} disablePointerDismissal={keepOpen}>
      <Base.Portal>
        <Base.Backdrop className="backdrop" />
        <Base.Popup className={wide ? 'dialog dialog-wide' : 'dialog'}>
          <div className="dialog-body">
            <div className="stack-small">
              <Base.Title className="dialog-title">{title}</Base.Title>
              {description && <Base.Description className="dialog-description">{description}</Base.Description>}
            </div>
            {children}
          </div>
          {footer && <div className="dialog-footer">{footer}</div>}
        </Base.Popup>
      </Base.Portal>
    </Base.Root>
  )
}
