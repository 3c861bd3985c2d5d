import type { ReactNode } from 'react'
import { useForm } from 'react-hook-form'
import { TextField } from './field.tsx'
import { FormDialog } from './form-dialog.tsx'

type Props = {
  title: string
  description: ReactNode
  action: string
  onConfirm: () => Promise<unknown>
  onClose: () => void
  danger?: boolean
  /** What has to be typed first. */
  typed?: string
  children?: ReactNode
}

/** Asks before an action, runs it and closes, or shows its error in place. */
export function Confirm({ onConfirm, onClose, danger = true, typed = '', children, ...texts }: Props) {
  const form = useForm({ defaultValues: { typed: '' } })
  return (
    <FormDialog
      {...texts}
      form={form}
      danger={danger}
      disabled={form.watch('typed') !== typed}
      onSubmit={() => onConfirm().then(onClose)}
      onClose={onClose}
    >
      {children}
      {typed !== '' && (
        <TextField
          label={
            <>
              Type <span className="mono">{typed}</span> to confirm
            </>
          }
          {...form.register('typed')}
        />
      )}
    </FormDialog>
  )
}
