import Type from 'typebox'
import { isoTime } from '../../kernel/iso-time.ts'
import { attemptsSummarizedMax, type OutcomeRow } from '../../store/delivery/summary.ts'
import { chosen } from '../basis.ts'
import { id, moment, nullable } from '../schemas.ts'

const here = chosen(110)

const count = (description: string) => Type.Integer({ minimum: 0, description })
const ms = (description: string) => nullable(Type.Number({ minimum: 0, description }))

const outcomes = () => ({
  succeeded: count('Attempts that succeeded.'),
  failed: count('Attempts that failed or were interrupted.'),
  p50_ms: ms('Half of the attempts took at most this long; null without attempts.'),
  p95_ms: ms('95 % of the attempts took at most this long.'),
})

export const deliverySummary = Type.Object(
  {
    since: moment(
      `What is counted: attempts from here on. Later than asked for if there were more than ${attemptsSummarizedMax.toLocaleString('en')} attempts, or one webhook had more than its equal share of them.`,
    ),
    until: moment('Attempts before this.'),
    bucket_seconds: Type.Integer({ description: 'The length of an interval.' }),
    ...outcomes(),
    buckets: Type.Array(
      Type.Object({ at: moment('Start of the interval.'), ...outcomes() }, { additionalProperties: false }),
      { description: 'By time, oldest first. Intervals without attempts are left out.' },
    ),
    webhooks: Type.Array(
      Type.Object({ webhook_id: id('wh', 'The webhook.'), ...outcomes() }, { additionalProperties: false }),
      { description: 'By webhook. Those without attempts are left out.' },
    ),
  },
  { $id: 'DeliverySummary', additionalProperties: false, ...here },
)

const millis = (us: number | null): number | null => (us === null ? null : us / 1_000)

const outcomesOf = (row: Pick<OutcomeRow, keyof typeof none>) => ({
  succeeded: row.succeeded,
  failed: row.failed,
  p50_ms: millis(row.p50_us),
  p95_ms: millis(row.p95_us),
})

const none = { succeeded: 0, failed: 0, p50_us: null, p95_us: null }

type Asked = { sinceMs: number; untilMs: number; bucketSeconds: number }

/** The rows of `summarizeAttempts` in one record. */
export function deliverySummaryOf(rows: readonly OutcomeRow[], { sinceMs, untilMs, bucketSeconds }: Asked) {
  const webhooks = rows.filter(({ webhook_id }) => webhook_id !== null)
  const buckets = rows.filter(({ at }) => at !== null)
  const [total] = rows.filter(({ at, webhook_id }) => at === null && webhook_id === null)
  return {
    since: isoTime(new Date(Math.max(sinceMs, total?.cut_at?.getTime() ?? sinceMs))),
    until: isoTime(new Date(untilMs)),
    bucket_seconds: bucketSeconds,
    ...outcomesOf(total ?? none),
    buckets: buckets.map((row) => ({ at: isoTime(new Date(Number(row.at) * 1_000)), ...outcomesOf(row) })),
    webhooks: webhooks.map((row) => ({ webhook_id: row.webhook_id!, ...outcomesOf(row) })),
  }
}
