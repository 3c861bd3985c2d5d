import type { OrganizationDelivery as Attempt } from '@keyhook/client'
import { ChevronDown, ChevronRight, RotateCw } from 'lucide-react'
import { memo } from 'react'
import { AttemptBadge } from '../../components/attempt-badge.tsx'
import { Badge } from '../../components/badge.tsx'
import { RelativeTime } from '../../components/time.tsx'
import { msText } from '../../words/numbers.ts'

type AttemptRowProps = {
  attempt: Attempt
  url: string
  top: number
  /** Below the row of its event, which says what was sent. */
  isInEvent: boolean
  isSelected: boolean
  onOpen: (id: string) => void
}

/** Scrolling renders the list many times a second, and each row once. */
export const AttemptRow = memo(function AttemptRow(props: AttemptRowProps) {
  const { attempt, url, top, isInEvent, isSelected, onOpen } = props
  return (
    <li style={{ transform: `translateY(${top}px)` }}>
      <button
        type="button"
        className={isInEvent ? 'delivery-row delivery-in-event' : 'delivery-row'}
        aria-current={isSelected || undefined}
        onClick={() => onOpen(attempt.id)}
      >
        <AttemptBadge delivery={attempt} />
        <span className="delivery-what">
          {!isInEvent && <span className="mono truncate">{attempt.event_type}</span>}
          <span className="small muted truncate">{url}</span>
        </span>
        <span className="delivery-attempt small muted">
          {attempt.attempt}
          {attempt.redelivered && (
            <span className="by-hand" title="Redelivered by hand: the retry schedule started again with this attempt">
              <RotateCw size={12} aria-hidden="true" /> by hand
            </span>
          )}
        </span>
        <span className="delivery-duration small muted number">{msText(attempt.duration_ms)}</span>
        <span className="delivery-time small muted">
          <RelativeTime at={attempt.started_at} />
        </span>
      </button>
    </li>
  )
})

/** An event with those of its attempts that are loaded and match the filters, newest first. */
type EventGroup = { id: string; attempts: Attempt[] }

/** Each event where its newest attempt is, followed by its attempts if it is opened. */
export function rowsByEvent(attempts: readonly Attempt[], opened: ReadonlySet<string>): (EventGroup | Attempt)[] {
  const groups = Map.groupBy(attempts, ({ event_id }) => event_id)
  return [...groups].flatMap(([id, its]) => [{ id, attempts: its }, ...(opened.has(id) ? its : [])])
}

type EventRowProps = { row: EventGroup; top: number; isOpen: boolean; onToggle: (id: string) => void }

export const EventRow = memo(function EventRow({ row: { id, attempts }, top, isOpen, onToggle }: EventRowProps) {
  const newest = attempts[0]!
  const Chevron = isOpen ? ChevronDown : ChevronRight
  return (
    <li style={{ transform: `translateY(${top}px)` }}>
      <button type="button" className="delivery-row" aria-expanded={isOpen} onClick={() => onToggle(id)}>
        <EventOutcome attempts={attempts} />
        <span className="delivery-event">
          <Chevron size={15} aria-hidden="true" />
          <span className="delivery-what">
            <span className="mono truncate">{newest.event_type}</span>
            <span className="small muted mono truncate">{id}</span>
          </span>
        </span>
        <span className="delivery-attempt small muted number">{attempts.length}</span>
        <span className="delivery-duration small muted number">{msText(newest.duration_ms)}</span>
        <span className="delivery-time small muted">
          <RelativeTime at={newest.started_at} />
        </span>
      </button>
    </li>
  )
})

/** By the newest attempt to each webhook. */
function EventOutcome({ attempts }: { attempts: readonly Attempt[] }) {
  const newest = [...Map.groupBy(attempts, ({ webhook_id }) => webhook_id).values()].map(([first]) => first!)
  if (newest.length === 1) return <AttemptBadge delivery={newest[0]!} />
  const succeeded = newest.filter(({ status }) => status === 'succeeded').length
  const text = `${succeeded} of ${newest.length} succeeded`
  if (newest.some(({ status }) => status === 'sending')) return <Badge tone="info">{text}</Badge>
  return <Badge tone={succeeded === newest.length ? 'success' : 'danger'}>{text}</Badge>
}
