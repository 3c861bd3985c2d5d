import { type ReactNode, useId } from 'react'
import type { FieldValues, Path, UseFormReturn } from 'react-hook-form'
import { explain, fieldErrors } from '../words/errors.ts'
import { Button } from './button.tsx'
import { Dialog } from './dialog.tsx'
import { Notice } from './notice.tsx'

type Props<T extends FieldValues> = {
  title: string
  description: ReactNode
  action: string
  form: UseFormReturn<T>
  /** Closes the dialog itself, or shows another one in its place. */
  onSubmit: (values: T) => Promise<unknown>
  onClose: () => void
  danger?: boolean
  wide?: boolean
  /** What is missing before the action is offered. */
  disabled?: boolean
  children?: ReactNode
}

/** Asks for something, sends it, and shows what the server refuses at its field. */
export function FormDialog<T extends FieldValues>({
  title,
  description,
  action,
  form,
  onSubmit,
  onClose,
  danger = false,
  wide = false,
  disabled = false,
  children,
}: Props<T>) {
  const id = useId()
  const { errors, isSubmitting } = form.formState
  const submit = form.handleSubmit((values) => onSubmit(values).catch((error) => showErrors(form, error)))
  return (
    <Dialog
      title={title}
      description={description}
      onClose={onClose}
      wide={wide}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" form={id} look={danger ? 'danger' : 'primary'} busy={isSubmitting} disabled={disabled}>
            {action}
          </Button>
        </>
      }
    >
      <form id={id} onSubmit={submit} className="stack" noValidate>
        {children}
        {errors.root?.message && <Notice kind="danger">{errors.root.message}</Notice>}
      </form>
    </Dialog>
  )
}

/** What the server refuses, at its field; otherwise below the form. */
export function showErrors<T extends FieldValues>(form: UseFormReturn<T>, error: unknown): void {
  const known = [...fieldErrors(error)].filter(([name]) => name in form.getValues())
  for (const [name, message] of known) form.setError(name as Path<T>, { message }, { shouldFocus: true })
  if (known.length === 0) form.setError('root', { message: explain(error) })
}
