import type { OrganizationDelivery as Attempt, Webhook } from '@keyhook/client'
import { Link } from '@tanstack/react-router'
import { useWindowVirtualizer } from '@tanstack/react-virtual'
import { Activity, SearchX } from 'lucide-react'
import { memo, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from 'react'
import { useMember } from '../../api/organization.ts'
import { AttemptBadge } from '../../components/attempt-badge.tsx'
import { Button } from '../../components/button.tsx'
import { EmptyState, ErrorState, LoadingBlock } from '../../components/states.tsx'
import { RelativeTime } from '../../components/time.tsx'
import { msText } from '../../words/numbers.ts'

type Props = {
  attempts: Attempt[] | undefined
  error: unknown
  hasMore: boolean
  isLoadingMore: boolean
  loadMore: () => void
  retry: () => void
  webhooks: readonly Webhook[]
  selected: string | undefined
  isFiltered: boolean
  onClear: () => void
  onOpen: (id: string) => void
}

export function DeliveryList(props: Props) {
  const { attempts, error, retry } = props
  return (
    <section className="card delivery-list" aria-label="Attempts">
      {attempts === undefined ? (
        error ? (
          <ErrorState error={error} retry={retry} what="The deliveries" />
        ) : (
          <LoadingBlock label="Loading attempts" />
        )
      ) : attempts.length === 0 ? (
        <Nothing {...props} />
      ) : (
        <Rows {...props} attempts={attempts} />
      )}
    </section>
  )
}

function Nothing({ isFiltered, onClear }: Props) {
  const { id: orgId } = useMember()
  if (isFiltered) {
    return (
      <EmptyState
        icon={SearchX}
        title="No attempt matches these filters"
        action={<Button onClick={onClear}>Clear filters</Button>}
      />
    )
  }
  return (
    <EmptyState
      icon={Activity}
      title="No deliveries yet"
      action={
        <Link to="/$orgId/webhooks" params={{ orgId }} className="button">
          Go to webhooks
        </Link>
      }
    >
      When an event is sent to one of your webhooks, its attempts appear here. A test event is the quickest way to see
      one.
    </EmptyState>
  )
}

const rowHeight = 57
const estimateSize = () => rowHeight

/** Only the visible rows are in the page, so that it stays smooth with 100,000 of them. */
function Rows({
  attempts,
  hasMore,
  isLoadingMore,
  loadMore,
  error,
  retry,
  webhooks,
  selected,
  onOpen,
}: Props & { attempts: Attempt[] }) {
  const list = useRef<HTMLUListElement>(null)
  const [top, setTop] = useState(0)
  useLayoutEffect(() => {
    const measure = () => {
      if (list.current !== null) setTop(list.current.getBoundingClientRect().top + window.scrollY)
    }
    measure()
    // Charts and filters above change their height.
    const observer = new ResizeObserver(measure)
    observer.observe(document.body)
    return () => observer.disconnect()
  }, [])
  // Another function would measure all rows again, 4 ms of each frame with 100,000 of them.
  const keyOf = useCallback((index: number) => attempts[index]!.id, [attempts])
  const virtualizer = useWindowVirtualizer({
    count: attempts.length,
    estimateSize,
    overscan: 12,
    scrollMargin: top,
    getItemKey: keyOf,
  })
  const items = virtualizer.getVirtualItems()
  const last = items.at(-1)?.index ?? 0
  useEffect(() => {
    if (hasMore && last >= attempts.length - 20) loadMore()
  }, [hasMore, last, attempts.length, loadMore])
  const urls = useMemo(() => new Map(webhooks.map(({ id, url }) => [id, url.replace(/^https:\/\//, '')])), [webhooks])
  const current = useRef(onOpen)
  current.current = onOpen
  const open = useCallback((id: string) => current.current(id), [])
  return (
    <>
      {error !== null && (
        <div className="list-notice" role="alert">
          The list could not be updated.{' '}
          <Button small onClick={retry}>
            Try again
          </Button>
        </div>
      )}
      <ul
        ref={list}
        className="delivery-rows"
        style={{ height: virtualizer.getTotalSize() }}
        aria-label="Attempts, newest first"
      >
        {items.map(({ key, index, start }) => {
          const attempt = attempts[index]!
          return (
            <Row
              key={key}
              attempt={attempt}
              url={urls.get(attempt.webhook_id) ?? attempt.request.url}
              top={start - virtualizer.options.scrollMargin}
              isSelected={attempt.id === selected}
              onOpen={open}
            />
          )
        })}
      </ul>
      {isLoadingMore && <div className="list-notice">Loading more…</div>}
    </>
  )
}

type RowProps = {
  attempt: Attempt
  url: string
  top: number
  isSelected: boolean
  onOpen: (id: string) => void
}

/** Scrolling renders the list many times a second, and each row once. */
const Row = memo(function Row({ attempt, url, top, isSelected, onOpen }: RowProps) {
  return (
    <li style={{ transform: `translateY(${top}px)` }}>
      <button
        type="button"
        className="delivery-row"
        aria-current={isSelected || undefined}
        onClick={() => onOpen(attempt.id)}
      >
        <AttemptBadge delivery={attempt} />
        <span className="delivery-what">
          <span className="mono truncate">{attempt.event_type}</span>
          <span className="small muted truncate">{url}</span>
        </span>
        <span className="delivery-attempt small muted">{attempt.attempt > 1 ? `Attempt ${attempt.attempt}` : ''}</span>
        <span className="delivery-duration small muted number">{msText(attempt.duration_ms)}</span>
        <span className="delivery-time small muted">
          <RelativeTime at={attempt.started_at} />
        </span>
      </button>
    </li>
  )
})
