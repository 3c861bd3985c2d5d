import { Check, Copy } from 'lucide-react'
import { useEffect, useState } from 'react'
import { Button } from './button.tsx'
import { showToast } from './toasts.tsx'

const shownMs = 1_500

/** Copies, and reports "copied" for 1.5 seconds. */
function useCopy(text: string): { isCopied: boolean; copy: () => Promise<void> } {
  const [copiedAt, setCopiedAt] = useState(0)
  useEffect(() => {
    if (copiedAt === 0) return
    const timer = setTimeout(() => setCopiedAt(0), shownMs)
    return () => clearTimeout(timer)
  }, [copiedAt])
  const copy = async () => {
    if (await writeClipboard(text)) setCopiedAt(Date.now())
    else
      showToast({ title: 'Your browser did not allow copying', description: 'Select the text instead.', type: 'error' })
  }
  return { isCopied: copiedAt !== 0, copy }
}

/** Browsers offer the clipboard on secure pages only; on plain http a selection can still be copied. */
async function writeClipboard(text: string): Promise<boolean> {
  if (navigator.clipboard !== undefined) {
    return navigator.clipboard.writeText(text).then(
      () => true,
      () => false,
    )
  }
  const area = document.createElement('textarea')
  area.value = text
  area.className = 'visually-hidden'
  // Inside the open dialog, whose focus trap would otherwise take the selection away.
  const parent = document.activeElement?.parentElement ?? document.body
  parent.append(area)
  area.select()
  const isDone = document.execCommand('copy')
  area.remove()
  return isDone
}

export function CopyButton({
  text,
  label = 'Copy',
  primary = false,
}: {
  text: string
  label?: string
  primary?: boolean
}) {
  const { isCopied, copy } = useCopy(text)
  return (
    <Button look={primary ? 'primary' : 'plain'} small={!primary} onClick={copy}>
      {isCopied ? <Check size={14} aria-hidden="true" /> : <Copy size={14} aria-hidden="true" />}
      <span aria-live="polite">{isCopied ? 'Copied' : label}</span>
    </Button>
  )
}

export function CopyIcon({ text, label }: { text: string; label: string }) {
  const { isCopied, copy } = useCopy(text)
  return (
    <Button look="ghost" className="button-icon" onClick={copy} aria-label={isCopied ? 'Copied' : label} title={label}>
      {isCopied ? <Check size={15} aria-hidden="true" /> : <Copy size={15} aria-hidden="true" />}
    </Button>
  )
}

/** An id: a click copies it. `short` keeps the kind and the last characters, which differ. */
export function IdChip({ id, short = false }: { id: string; short?: boolean }) {
  const { isCopied, copy } = useCopy(id)
  return (
    <button
      type="button"
      className="id-chip"
      data-copied={isCopied || undefined}
      title={isCopied ? 'Copied' : `Copy ${id}`}
      onClick={(event) => {
        event.stopPropagation()
        void copy()
      }}
    >
      <span className="visually-hidden">{isCopied ? 'Copied' : 'Copy'}</span>
      <span className="truncate">{short ? shortId(id) : id}</span>
      {isCopied ? <Check size={12} aria-hidden="true" /> : <Copy size={12} aria-hidden="true" />}
    </button>
  )
}

const shortId = (id: string): string => (id.length <= 16 ? id : `${id.slice(0, id.indexOf('_') + 1)}…${id.slice(-6)}`)
