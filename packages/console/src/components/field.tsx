import { CircleAlert } from 'lucide-react'
import { type ComponentProps, type ReactNode, useId } from 'react'

/** A label, an input, and its hint or error, tied together for screen readers. */
export function Field({
  label,
  hint,
  error,
  inline = false,
  children,
}: {
  label: ReactNode
  hint?: ReactNode
  error?: string | undefined
  /** The label beside the input, in a row of filters. */
  inline?: boolean
  children: (attributes: { id: string; 'aria-invalid': boolean; 'aria-describedby': string | undefined }) => ReactNode
}) {
  const id = useId()
  const describedBy = [error && `${id}-error`, hint && `${id}-hint`].filter(Boolean).join(' ') || undefined
  return (
    <div className={inline ? 'field field-inline' : 'field'}>
      <label htmlFor={id}>{label}</label>
      {children({ id, 'aria-invalid': error !== undefined, 'aria-describedby': describedBy })}
      {error && <FieldError id={`${id}-error`}>{error}</FieldError>}
      {hint && (
        <span id={`${id}-hint`} className="field-hint">
          {hint}
        </span>
      )}
    </div>
  )
}

type TextFieldProps = { label: ReactNode; hint?: ReactNode; error?: string | undefined } & ComponentProps<'input'>

export function TextField({ label, hint, error, ...input }: TextFieldProps) {
  return (
    <Field label={label} hint={hint} error={error}>
      {(attributes) => <input {...attributes} className="input" autoComplete="off" {...input} />}
    </Field>
  )
}

export function FieldError({ id, children }: { id?: string; children: ReactNode }) {
  return (
    <span id={id} className="field-error" role="alert">
      <CircleAlert size={14} aria-hidden="true" />
      {children}
    </span>
  )
}
