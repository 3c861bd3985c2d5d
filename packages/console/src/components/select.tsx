import { useId } from 'react'

type Props<T extends string> = {
  label: string
  /** Texts by value, in their order. */
  options: Partial<Record<T, string>>
  value: T
  onChange: (value: T) => void
  /** In a row of filters, where the label is only read aloud. */
  small?: boolean
}

export function Select<T extends string>({ label, options, value, onChange, small = false }: Props<T>) {
  const id = useId()
  return (
    <div className={small ? undefined : 'field'}>
      <label htmlFor={id} className={small ? 'visually-hidden' : undefined}>
        {label}
      </label>
      <select
        id={id}
        className={small ? 'input input-small' : 'input'}
        value={value}
        onChange={(event) => onChange(event.target.value as T)}
      >
        {Object.entries<string | undefined>(options).map(([one, text]) => (
          <option key={one} value={one}>
            {text}
          </option>
        ))}
        {/* Otherwise the first option would seem to be chosen: of a filter by something deleted, "All". */}
        {!Object.hasOwn(options, value) && <option value={value}>{value}</option>}
      </select>
    </div>
  )
}
