import { Field } from './field.tsx'

/** The value of a `datetime-local` input: local time, in minutes. */
export const localMinute = (ms: number): string =>
  new Date(ms - new Date(ms).getTimezoneOffset() * 60_000).toISOString().slice(0, 16)

/** The same in seconds: the first one after the time, or the last one before it. */
export function localSecond(time: string, rounding: 'up' | 'down'): string {
  const ms = (rounding === 'up' ? Math.ceil : Math.floor)(Date.parse(time) / 1_000) * 1_000
  return new Date(ms - new Date(ms).getTimezoneOffset() * 60_000).toISOString().slice(0, 19)
}

/** The time zone of these fields at a time: "Europe/Berlin (GMT+1)". */
export function zoneText(local: string): string {
  const { timeZone } = Intl.DateTimeFormat().resolvedOptions()
  const parts = new Intl.DateTimeFormat('en', { timeZoneName: 'shortOffset' }).formatToParts(
    local === '' ? Date.now() : new Date(local),
  )
  return `${timeZone} (${parts.find(({ type }) => type === 'timeZoneName')?.value})`
}

type Props = {
  label: string
  value: string
  onChange: (value: string) => void
  onBlur?: () => void
  small?: boolean
}

export function TimeField({ label, value, onChange, onBlur, small = false }: Props) {
  return (
    <Field label={label} inline={small}>
      {(attributes) => (
        <input
          {...attributes}
          className={small ? 'input input-small' : 'input'}
          type="datetime-local"
          value={value}
          onChange={(event) => onChange(event.target.value)}
          onBlur={onBlur}
        />
      )}
    </Field>
  )
}
