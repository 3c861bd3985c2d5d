import type { Webhook, WebhookHealth } from '@keyhook/client'
import { Badge } from '../../components/badge.tsx'
import { Countdown, MinuteTime, RelativeTime } from '../../components/time.tsx'
import { failureText } from '../../words/send-errors.ts'
import { FailingBadge } from './failing.tsx'

const percent = new Intl.NumberFormat('en', { style: 'percent', maximumFractionDigits: 1 })
const count = new Intl.NumberFormat('en')

/** 99.96 % must not read as 100 %. */
const shareText = (share: number): string => percent.format(Math.floor(share * 1_000) / 1_000)

/** An active endpoint with a success may work again already: only one without any looks broken. */
export function WebhookStatus({ webhook }: { webhook: Webhook }) {
  if (webhook.status === 'paused') return <Badge tone="warning">Paused</Badge>
  if (webhook.status !== 'active') return <FailingBadge status={webhook.status} />
  const { success_share: share } = webhook.health
  if (share === null) return <Badge>No attempts in 24 hours</Badge>
  if (share === 0) return <Badge tone="danger">Only failures</Badge>
  return share < 0.99 ? <Badge tone="warning">Active, with failures</Badge> : <Badge tone="success">Healthy</Badge>
}

export function SuccessShare({ health }: { health: WebhookHealth }) {
  if (health.success_share === null) return <span className="muted">—</span>
  const all = health.succeeded + health.failed
  // Only so many attempts are counted: then they begin later.
  const isCut = Date.parse(health.since) > Date.now() - 23 * 3_600_000
  return (
    <div className="share">
      <span className="number">{shareText(health.success_share)}</span>
      <progress
        className={health.success_share < 1 ? 'share-bar share-bar-low' : 'share-bar'}
        value={health.success_share}
        aria-label="Share of attempts that succeeded"
      />
      <span className="small muted number">
        {isCut && 'newest '}
        {count.format(all)} {all === 1 ? 'attempt' : 'attempts'}
        {!isCut && ' in 24 hours'}
      </span>
    </div>
  )
}

export function LastFailure({ health }: { health: WebhookHealth }) {
  const failure = health.last_failure
  if (failure === null) return <span className="muted">None</span>
  return (
    <div className="last-failure">
      <RelativeTime at={failure.at} />
      <span className="small muted">{failureText(failure.error_code, failure.response_status)}</span>
    </div>
  )
}

const countedMax = 10_000

/** How many deliveries are not finished, and how long the first of them has waited. */
export function Waiting({ health }: { health: WebhookHealth }) {
  if (health.oldest_waiting_at === null) return <span className="muted">No event waits</span>
  return (
    <div className="last-failure">
      <span className="number">{`${count.format(health.waiting)}${health.waiting >= countedMax ? ' or more' : ''}`}</span>
      <span className="small muted">
        since <MinuteTime at={health.oldest_waiting_at} />
      </span>
    </div>
  )
}

export function NextAttempt({ health }: { health: WebhookHealth }) {
  if (health.next_attempt_at !== null) return <Countdown to={health.next_attempt_at} />
  return <span className="muted">{health.waiting > 0 ? 'Being sent' : 'None'}</span>
}
