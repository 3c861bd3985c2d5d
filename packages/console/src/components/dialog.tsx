import { Dialog as Base } from '@base-ui/react/dialog'
import { type FormEvent, type ReactNode, useState } from 'react'
import { explain } from '../words/errors.ts'
import { Button } from './button.tsx'
import { Notice } from './notice.tsx'

export type DialogProps = {
  title: string
  description?: ReactNode
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

type ConfirmProps = {
  title: string
  description: ReactNode
  action: string
  /** Answers 'stay' if another dialog follows in its place, or something is still missing. */
  onConfirm: () => Promise<unknown>
  onClose: () => void
  danger?: boolean
  /** What has to be typed first. */
  typed?: string
  children?: ReactNode
}

/** Asks before an action, runs it, and shows its error in place. */
export function Confirm({
  title,
  description,
  action,
  onConfirm,
  onClose,
  danger = true,
  typed,
  children,
}: ConfirmProps) {
  const [text, setText] = useState('')
  const [isBusy, setBusy] = useState(false)
  const [error, setError] = useState<unknown>(null)
  const isReady = typed === undefined || text === typed
  const confirm = async (event: FormEvent) => {
    event.preventDefault()
    if (!isReady) return
    setBusy(true)
    setError(null)
    try {
      if ((await onConfirm()) === 'stay') setBusy(false)
      else onClose()
    } catch (caught) {
      setError(caught)
      setBusy(false)
    }
  }
  return (
    <Dialog
      title={title}
      description={description}
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" form="confirm" look={danger ? 'danger' : 'primary'} busy={isBusy} disabled={!isReady}>
            {action}
          </Button>
        </>
      }
    >
      <form id="confirm" onSubmit={confirm} className="stack">
        {children}
        {typed !== undefined && (
          <div className="field">
            <label htmlFor="confirm-typed">
              Type <span className="mono">{typed}</span> to confirm
            </label>
            <input
              id="confirm-typed"
              className="input"
              autoComplete="off"
              value={text}
              onChange={(event) => setText(event.target.value)}
            />
          </div>
        )}
        {error !== null && <Notice kind="danger">{explain(error)}</Notice>}
      </form>
    </Dialog>
  )
}
