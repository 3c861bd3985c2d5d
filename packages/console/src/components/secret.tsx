import { useId } from 'react'
import { CopyIcon } from './copy.tsx'

/** A value that is shown once: selected on focus, so that it can also be copied by hand. */
export function Secret({ label, text }: { label: string; text: string }) {
  const id = useId()
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      <div className="row">
        <input
          id={id}
          className="input mono"
          readOnly
          value={text}
          autoComplete="off"
          spellCheck={false}
          onFocus={(event) => event.target.select()}
        />
        <CopyIcon text={text} label={`Copy ${label}`} />
      </div>
    </div>
  )
}
