import { CircleCheck, Info, OctagonAlert, TriangleAlert } from 'lucide-react'
import type { ReactNode } from 'react'

const icons = { info: Info, warning: TriangleAlert, danger: OctagonAlert, success: CircleCheck }

export function Notice({ kind = 'info', children }: { kind?: keyof typeof icons; children: ReactNode }) {
  const Icon = icons[kind]
  return (
    <div className={`notice notice-${kind}`} role={kind === 'danger' ? 'alert' : 'note'}>
      <Icon size={16} aria-hidden="true" />
      <div className="grow break">{children}</div>
    </div>
  )
}
