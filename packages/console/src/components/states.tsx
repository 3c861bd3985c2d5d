import { KeyhookError } from '@keyhook/client'
import { CloudAlert, type LucideIcon } from 'lucide-react'
import type { ReactNode } from 'react'
import { explain } from '../words/errors.ts'
import { Button } from './button.tsx'
import { IdChip } from './copy.tsx'

export function EmptyState({
  icon: Icon,
  title,
  children,
  action,
  isPage = false,
}: {
  icon: LucideIcon
  title: string
  children?: ReactNode
  action?: ReactNode
  /** It is all of the page, so its title is the main heading. */
  isPage?: boolean
}) {
  const Title = isPage ? 'h1' : 'h2'
  return (
    <div className="state">
      <Icon size={26} strokeWidth={1.5} aria-hidden="true" />
      <Title>{title}</Title>
      {children && <p>{children}</p>}
      {action && <div className="row">{action}</div>}
    </div>
  )
}

type ErrorProps = { error: unknown; retry: () => unknown; what: string; isPage?: boolean }

export function ErrorState({ error, retry, what, isPage = false }: ErrorProps) {
  const Title = isPage ? 'h1' : 'h2'
  const requestId = error instanceof KeyhookError ? error.requestId : null
  return (
    <div className="state" role="alert">
      <CloudAlert size={26} strokeWidth={1.5} aria-hidden="true" />
      <Title>{what} could not be loaded</Title>
      <p>{explain(error)}</p>
      {requestId && (
        <p className="small">
          Request <IdChip id={requestId} />
        </p>
      )}
      <div className="row">
        <Button onClick={() => retry()}>Try again</Button>
      </div>
    </div>
  )
}

const widths = ['skeleton-70', 'skeleton-50', 'skeleton-30']

export function LoadingRows({ rows = 5, columns }: { rows?: number; columns: number }) {
  return Array.from({ length: rows }, (_, row) => (
    // biome-ignore lint/suspicious/noArrayIndexKey: they are all alike
    <tr key={row}>
      {Array.from({ length: columns }, (_, column) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: they are all alike
        <td key={column}>
          <span className={`skeleton ${widths[(row + column) % widths.length]}`} />
        </td>
      ))}
    </tr>
  ))
}

/** As high as the chart that follows. */
export const LoadingChart = () => (
  <div className="chart-space" role="status" aria-label="Loading the chart">
    <span className="skeleton skeleton-30" />
  </div>
)

export function LoadingBlock({ label = 'Loading' }: { label?: string }) {
  return (
    <div className="card-body stack" role="status" aria-label={label}>
      <span className="skeleton skeleton-50" />
      <span className="skeleton skeleton-70" />
      <span className="skeleton skeleton-30" />
    </div>
  )
}
