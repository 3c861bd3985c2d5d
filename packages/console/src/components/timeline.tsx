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
  onOpen: (id: string) => void
}

/** All attempts of one event at one webhook, oldest first, and what comes next. */
export function Timeline({ attempts, status, selected, onOpen }: Props) {
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
          {attempt.status === 'failed' && attempt.response_status === null && (
            <span className="small muted">{failureText(attempt.error_code, null)}</span>
          )}
        </li>
      ))}
      {status === 'waiting' && (
        <li data-status="next">
          <span>
            {next === null ? (
              'Waiting to be sent'
            ) : (
              <>
                Next attempt <Countdown to={next} />
              </>
            )}
          </span>
        </li>
      )}
      {status === 'failed' && (
        <li data-status="next">
          <span className="muted">No further attempts. Redeliver it when the endpoint works again.</span>
        </li>
      )}
      {status === 'expired' && (
        <li data-status="next">
          <span className="muted">Too old to be sent: no further attempts.</span>
        </li>
      )}
    </ol>
  )
}
