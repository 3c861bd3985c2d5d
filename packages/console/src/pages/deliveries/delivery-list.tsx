import type { OrganizationDelivery as Attempt, Webhook } from '@keyhook/client'
import { Link } from '@tanstack/react-router'
import { useWindowVirtualizer } from '@tanstack/react-virtual'
import { Activity, SearchX } from 'lucide-react'
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from 'react'
import { useMember } from '../../api/organization.ts'
import { Button } from '../../components/button.tsx'
import { EmptyState, ErrorState, LoadingBlock } from '../../components/states.tsx'
import { AttemptRow, EventRow, rowsByEvent } from './delivery-rows.tsx'

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
  /** One row per event, which opens to its attempts. */
  isGrouped: boolean
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
  isGrouped,
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
  const [opened, setOpened] = useState<ReadonlySet<string>>(new Set())
  const rows = useMemo(() => (isGrouped ? rowsByEvent(attempts, opened) : attempts), [attempts, isGrouped, opened])
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
  const keyOf = useCallback((index: number) => rows[index]!.id, [rows])
  const virtualizer = useWindowVirtualizer({
    count: rows.length,
    estimateSize,
    overscan: 12,
    scrollMargin: top,
    getItemKey: keyOf,
  })
  const items = virtualizer.getVirtualItems()
  const last = items.at(-1)?.index ?? 0
  useEffect(() => {
    if (hasMore && last >= rows.length - 20) loadMore()
  }, [hasMore, last, rows.length, loadMore])
  const urls = useMemo(() => new Map(webhooks.map(({ id, url }) => [id, url.replace(/^https:\/\//, '')])), [webhooks])
  const current = useRef(onOpen)
  current.current = onOpen
  const open = useCallback((id: string) => current.current(id), [])
  const toggle = useCallback(
    (id: string) =>
      setOpened((before) =>
        before.has(id) ? new Set([...before].filter((one) => one !== id)) : new Set([...before, id]),
      ),
    [],
  )
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
      <div className="delivery-row delivery-head">
        <span>{isGrouped ? 'Outcome in this list' : 'Outcome'}</span>
        <span>{isGrouped ? 'Event' : 'Event and webhook'}</span>
        <span className="delivery-attempt">{isGrouped ? 'In this list' : 'Attempt'}</span>
        <span className="delivery-duration">Duration</span>
        <span className="delivery-time">{isGrouped ? 'Last attempt' : 'Started'}</span>
      </div>
      <ul
        ref={list}
        className="delivery-rows"
        style={{ height: virtualizer.getTotalSize() }}
        aria-label={isGrouped ? 'Events, newest attempt first' : 'Attempts, newest first'}
      >
        {items.map(({ key, index, start }) => {
          const row = rows[index]!
          const place = start - virtualizer.options.scrollMargin
          if ('attempts' in row)
            return <EventRow key={key} row={row} top={place} isOpen={opened.has(row.id)} onToggle={toggle} />
          return (
            <AttemptRow
              key={key}
              attempt={row}
              url={urls.get(row.webhook_id) ?? row.request.url}
              top={place}
              isInEvent={isGrouped}
              isSelected={row.id === selected}
              onOpen={open}
            />
          )
        })}
      </ul>
      {isLoadingMore && <div className="list-notice">Loading more…</div>}
    </>
  )
}
