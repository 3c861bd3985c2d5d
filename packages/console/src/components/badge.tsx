import type { ReactNode } from 'react'

export type Tone = 'neutral' | 'success' | 'danger' | 'warning' | 'info'

export function Badge({
  tone = 'neutral',
  busy = false,
  children,
}: {
  tone?: Tone
  busy?: boolean
  children: ReactNode
}) {
  return <span className={`badge badge-${tone} ${busy ? 'badge-busy' : ''}`}>{children}</span>
}
