import type { EventAttempt } from '@keyhook/client'
import { msText } from '../words/numbers.ts'
import { failureText } from '../words/send-errors.ts'
import { AttemptBadge } from './attempt-badge.tsx'
import { Button } from './button.tsx'
import { Countdown, RelativeTime } from './time.tsx'

type Props = {
  attempts: readonly EventAttempt[]
  status: 'waiting' | 'sending' | 'succeeded' | 'failed' | 'expired'
  selected?: string
  /** When the pause of the webhook ends; null if it is not paused. */
  pausedUntil?: string | null
  isSuspended?: boolean
  isDeleted?: boolean
  onOpen: (id: string) => void
}

/** All attempts of one event at one webhook, oldest first, and what comes next. */
export function Timeline({ attempts, status, selected, onOpen, ...props }: Props) {
  const { pausedUntil = null, isSuspended = false, isDeleted = false } = props
  const ordered = [...attempts].sort((a, b) => a.attempt - b.attempt)
  const next = ordered.at(-1)?.next_attempt_at ?? null
  return (
    <ol className="timeline">
      {ordered.map((attempt) => (
        <li key={attempt.id} data-status={attempt.status}>
          <Button
            small
            look="ghost"
            aria-current={attempt.id === selected || undefined}
            onClick={() => onOpen(attempt.id)}
          >
            Attempt {attempt.attempt}
          </Button>
          <AttemptBadge delivery={attempt} />
          <span className="small muted">
            <RelativeTime at={attempt.started_at} /> · {msText(attempt.duration_ms)}
          </span>
          {attempt.redelivered && <span className="tag">Redelivered by hand: the retry schedule started again</span>}
          {attempt.status === 'failed' && attempt.response_status === null && (
            <span className="small muted">{failureText(attempt.error_code, null)}</span>
          )}
        </li>
      ))}
      {status === 'waiting' && (
        <li data-status="next">
          <Waiting nextAt={next} pausedUntil={pausedUntil} isSuspended={isSuspended} />
        </li>
      )}
      {status === 'failed' && (
        <li data-status="next">
          <span className="muted">
            {isDeleted
              ? 'No further attempts: the webhook was deleted.'
              : 'No further attempts. Redeliver the event when the endpoint works again.'}
          </span>
        </li>
      )}
      {status === 'expired' && (
        <li data-status="next">
          <span className="muted">The delivery is finished. Its attempts were deleted because of their age.</span>
        </li>
      )}
    </ol>
  )
}

type WaitingProps = { nextAt: string | null; pausedUntil: string | null; isSuspended: boolean }

function Waiting({ nextAt, pausedUntil, isSuspended }: WaitingProps) {
  if (pausedUntil !== null) {
    return (
      <span>
        Waiting: the webhook is paused and resumes <RelativeTime at={pausedUntil} />.
      </span>
    )
  }
  if (isSuspended) return <span>Waiting: the webhook is suspended, and tried every hour.</span>
  if (nextAt === null) return <span>Waiting to be sent</span>
  return (
    <span>
      Next attempt <Countdown to={nextAt} />
    </span>
  )
}
