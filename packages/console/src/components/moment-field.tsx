import { Field } from './field.tsx'

/** The value of a `datetime-local` input: local time, in minutes. */
export const localMinute = (ms: number): string =>
  new Date(ms - new Date(ms).getTimezoneOffset() * 60_000).toISOString().slice(0, 16)

type Props = { label: string; value: string; onChange: (value: string) => void; small?: boolean }

export function MomentField({ label, value, onChange, small = false }: Props) {
  return (
    <Field label={label} inline={small}>
      {(attributes) => (
        <input
          {...attributes}
          className={small ? 'input input-small' : 'input'}
          type="datetime-local"
          value={value}
          onChange={(event) => onChange(event.target.value)}
        />
      )}
    </Field>
  )
}
