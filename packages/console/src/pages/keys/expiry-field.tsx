import type { UseFormRegisterReturn } from 'react-hook-form'
import { Field } from '../../components/field.tsx'
import { daysText, expiryOptions } from './expiry.ts'

type Props = {
  label?: string
  daysMax: number | null
  /** The end of the key that is changed or rotated. */
  current?: string | null | undefined
  error: string | undefined
  registration: UseFormRegisterReturn
}

export function ExpiryField({ label = 'Expires', daysMax, current, error, registration }: Props) {
  const hint = daysMax !== null && `New keys of this organization last at most ${daysText(daysMax)}.`
  return (
    <Field label={label} hint={hint} error={error}>
      {(attributes) => (
        <select {...attributes} className="input" {...registration}>
          {expiryOptions(daysMax, current).map(([value, text]) => (
            <option key={value} value={value}>
              {text}
            </option>
          ))}
        </select>
      )}
    </Field>
  )
}
