import { X } from 'lucide-react'
import { useEffect, useState, useSyncExternalStore } from 'react'
import { createPortal } from 'react-dom'
import { explain } from '../words/errors.ts'
import { IconButton } from './button.tsx'

type Toast = { title: string; description?: string; type?: 'error' | 'done' }

const toastsMax = 3

let toasts: readonly (Toast & { id: number })[] = []
let lastId = 0
const listeners = new Set<() => void>()

function change(next: typeof toasts): void {
  toasts = next
  for (const listener of listeners) listener()
}

const close = (id: number): void => change(toasts.filter((toast) => toast.id !== id))

export function showToast(toast: Toast): void {
  lastId += 1
  change([...toasts, { ...toast, id: lastId }].slice(-toastsMax))
}

/** What was said to one user is not for whoever is at the browser next. */
export const clearToasts = (): void => change([])

/** For actions without a form that could show the error. */
export const toastError = (title: string) => (error: unknown) =>
  showToast({ title, description: explain(error), type: 'error' })

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

/** Outside of the page, which a dialog hides. Screen readers read each toast when it appears. */
export function Toasts() {
  const shown = useSyncExternalStore(subscribe, () => toasts)
  return createPortal(
    <section className="toasts" aria-label="Notifications" aria-live="polite">
      {shown.map(({ id, ...toast }) => (
        <ToastCard key={id} {...toast} onClose={() => close(id)} />
      ))}
    </section>,
    document.body,
  )
}

/** Closes by itself, but not while it is pointed at or has the focus. */
function ToastCard({ title, description, type, onClose }: Toast & { onClose: () => void }) {
  const [isHeld, setHeld] = useState(false)
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new function for the same toast does not restart its time
  useEffect(() => {
    if (isHeld) return
    const timer = setTimeout(onClose, type === 'error' ? 10_000 : 4_000)
    return () => clearTimeout(timer)
  }, [isHeld, type])
  const [hold, release] = [() => setHeld(true), () => setHeld(false)]
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: pointing at it only keeps it on the page
    <div className="toast" data-type={type} onMouseEnter={hold} onMouseLeave={release} onFocus={hold} onBlur={release}>
      <div className="grow">
        <p className="toast-title">{title}</p>
        {description && <p className="toast-description break">{description}</p>}
      </div>
      <IconButton label="Close" onClick={onClose}>
        <X size={15} aria-hidden="true" />
      </IconButton>
    </div>
  )
}
