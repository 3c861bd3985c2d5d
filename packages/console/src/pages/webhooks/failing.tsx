import type { Webhook } from '@keyhook/client'
import { Badge } from '../../components/badge.tsx'
import { Notice } from '../../components/notice.tsx'
import { Countdown, MinuteTime, RelativeTime } from '../../components/time.tsx'
import { failureText } from '../../words/send-errors.ts'

/** Null unless its attempts fail one after the other. */
export function FailingBadge({ status }: Pick<Webhook, 'status'>) {
  if (status === 'suspended') return <Badge tone="danger">Suspended</Badge>
  return status === 'failing' ? <Badge tone="danger">Failing</Badge> : null
}

/** Failing and suspended endpoints come first, then the paused ones, then those with the most failures. */
export function urgencyOf({ status, health }: Pick<Webhook, 'status' | 'health'>): number {
  const place = ['suspended', 'failing', 'paused'].indexOf(status)
  return place < 0 ? (health.success_share ?? 2) : place - 3
}

/** Since when the endpoint fails and why, and when it is tried next. */
export function FailingNotice({ webhook }: { webhook: Webhook }) {
  if (webhook.failing_since === null || webhook.status === 'paused') return null
  return (
    <Notice kind="danger">
      <p>
        {webhook.status === 'suspended'
          ? 'Suspended: every attempt has failed since '
          : 'Every attempt has failed since '}
        <MinuteTime at={webhook.failing_since} />
        <LastReason webhook={webhook} />. {webhook.status === 'suspended' && <WhileSuspended webhook={webhook} />}
      </p>
      <NextTry webhook={webhook} />
    </Notice>
  )
}

function LastReason({ webhook: { health } }: { webhook: Webhook }) {
  if (health.last_failure === null) return null
  const { error_code, response_status } = health.last_failure
  return <>, the last one with: {failureText(error_code, response_status)}</>
}

function WhileSuspended({ webhook }: { webhook: Webhook }) {
  return (
    <>
      Its deliveries wait, and one is tried every hour. The first success sends the others, in the order of events.
      Without any, the retry schedule goes on {webhook.suspended_until && <RelativeTime at={webhook.suspended_until} />}
      . A test event is sent at once.
    </>
  )
}

function NextTry({ webhook }: { webhook: Webhook }) {
  const at = webhook.health.next_attempt_at
  if (at === null) return <p>Nothing waits, so it is tried with the next event.</p>
  return (
    <p>
      Tried next <Countdown to={at} />.
    </p>
  )
}
