import type { ReactNode } from 'react'

/** A number or state with its label, inside a `dl`. */
export function Stat({ label, children }: { label: string; children: ReactNode }) {
  return (
    <div className="stat">
      <dt>{label}</dt>
      <dd>{children}</dd>
    </div>
  )
}
