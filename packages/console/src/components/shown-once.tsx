import type { ReactNode } from 'react'
import { Button } from './button.tsx'
import { CopyButton } from './copy.tsx'
import { Dialog } from './dialog.tsx'
import { Notice } from './notice.tsx'

type Props = {
  title: string
  description?: string
  warning: ReactNode
  /** What the button copies, and its label. */
  copy: { text: string; label: string }
  onClose: () => void
  children: ReactNode
}

/** For a secret that is never shown again: a click beside the dialog does not lose it. */
export function ShownOnce({ title, description, warning, copy, onClose, children }: Props) {
  return (
    <Dialog
      title={title}
      description={description}
      onClose={onClose}
      wide
      keepOpen
      footer={
        <>
          <CopyButton {...copy} primary />
          <Button onClick={onClose}>Done</Button>
        </>
      }
    >
      <Notice kind="warning">{warning}</Notice>
      {children}
    </Dialog>
  )
}
