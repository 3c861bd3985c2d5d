import Type from 'typebox'
import { choice, chosen, mark, specified, withChoices } from '../http/basis.ts'
import { exampleId, id, nullable, timestamp } from '../http/schemas.ts'
import { type AttemptId, attemptIdOf } from '../lib/ids.ts'
import { isoTime } from '../lib/time.ts'
import { shownEventType } from './event-type-schemas.ts'
import { attemptsSummarizedMax, type HistoryRow, type OutcomeRow } from './history-sql.ts'
import { sendErrorCodes } from './send-errors.ts'
import { readHeaders } from './sender/senders.ts'

const here = chosen(35)
const headers = (description: string) =>
  Type.Record(Type.String(), Type.Unknown(), { description, examples: [{ 'content-type': 'application/json' }] })
const ms = (description: string) => nullable(Type.Number({ minimum: 0, description, examples: [48.2] }))

const request = Type.Object(
  {
    method: Type.Literal('POST', { description: 'Always POST.' }),
    url: Type.String({ description: 'Where it was sent, as it was called.', examples: ['https://example.com/hooks'] }),
    headers: withChoices(
      nullable(headers('What was sent with it, the signature included. Null while it is in flight.')),
      choice(44, 'Null also for an attempt whose dispatcher ended before it could record them.'),
    ),
    address: withChoices(
      nullable(Type.String({ description: 'The address of the socket that was used.', examples: ['203.0.113.7'] })),
      choice(46, 'From the hosts file, then DNS, without search domains; forbidden addresses are left out.'),
    ),
    timings: Type.Object(
      {
        dns_ms: ms('The look-up of the name. Null on a connection that was there already, or for an address.'),
        connect_ms: ms('The TCP connection.'),
        tls_ms: ms('The TLS handshake.'),
        first_byte_ms: ms('From the start to the first byte of the response.'),
        total_ms: ms('From the start to the end.'),
      },
      { additionalProperties: false, description: 'How long each part took.' },
    ),
  },
  { additionalProperties: false, description: 'What was sent.', ...here },
)

const response = Type.Object(
  {
    status: Type.Integer({ description: 'The HTTP status.', examples: [200] }),
    headers: headers('The header fields.'),
    body: withChoices(
      Type.String({ description: 'The beginning of the body, as text.', examples: ['ok'] }),
      choice(22, 'The first 16 KiB, unless the operator has set another limit.'),
    ),
    body_truncated: withChoices(
      Type.Boolean({ description: 'Whether there was more than is kept, or should have been.' }),
      choice(
        36,
        'Up to 1 MiB is read; more is a failure. A compressed body is not kept: then this is true, and `body` empty.',
      ),
    ),
  },
  { additionalProperties: false, description: 'What the receiver answered; null if it did not.', ...here },
)

export const attemptStatuses = ['sending', 'succeeded', 'failed', 'interrupted'] as const

export const redelivered = () =>
  Type.Boolean({
    description:
      'Whether a redelivery or recovery asked for this attempt. The retry schedule started again with it. False in records of before this field.',
  })

export const deliveryRecord = Type.Object(
  {
    id: id('dlv', 'This attempt.'),
    event_id: Type.String({ description: 'The event that was sent.', examples: [exampleId('evt')] }),
    event_type: shownEventType('Its type.'),
    attempt: Type.Integer({ minimum: 1, description: 'Which attempt of this delivery it is, counted from 1.' }),
    status: mark(
      specified,
      Type.Enum([...attemptStatuses], {
        description: 'How this attempt stands.',
        examples: ['succeeded'],
      }),
      choice(18, 'These four values: `sending` turns into one of the others, and they stay.'),
      choice(19, '`succeeded` is an answer of 2xx; a redirect is `failed`.'),
      choice(44, '`interrupted`: the dispatcher stopped before it knew the outcome; the event is sent again.'),
    ),
    started_at: timestamp('When it began.'),
    duration_ms: ms('How long it took.'),
    request,
    response: mark(specified, nullable(response), choice(35, 'Its form; null when none was received.')),
    error: nullable(
      Type.Object(
        {
          code: Type.Enum([...sendErrorCodes], { description: 'What went wrong: test for this one.' }),
          detail: Type.String({ description: 'The same for people.' }),
        },
        { additionalProperties: false, description: 'Why it failed; null if it did not.', ...chosen(34) },
      ),
    ),
    next_attempt_at: withChoices(
      nullable(timestamp('When it is tried again; null if it is not.')),
      choice(20, 'By the schedule, which `Retry-After` can lengthen and 410 ends.'),
    ),
  },
  { $id: 'Delivery', additionalProperties: false, ...chosen(18) },
)

const millis = (us: number | null): number | null => (us === null ? null : us / 1_000)

/** `urlNow`: of the webhook; an earlier attempt may have gone to another. */
export const deliveryRecordOf = (row: HistoryRow, urlNow: string) => ({
  id: attemptIdOf(row.id) satisfies AttemptId,
  event_id: row.event_id,
  event_type: row.event_type,
  attempt: row.attempt,
  status: row.status,
  started_at: isoTime(row.started_at),
  duration_ms: millis(row.duration_us),
  request: {
    method: 'POST',
    // As it was requested: the URL parser normalises the path.
    url: new URL(row.earlier_url ?? urlNow).href,
    headers: row.request_headers === null ? null : readHeaders(row.request_headers),
    address: row.address,
    timings: {
      dns_ms: millis(row.dns_us),
      connect_ms: millis(row.connect_us),
      tls_ms: millis(row.tls_us),
      first_byte_ms: millis(row.first_byte_us),
      total_ms: millis(row.duration_us),
    },
  },
  response:
    row.response_status === null
      ? null
      : {
          status: row.response_status,
          headers: readHeaders(row.response_headers ?? ''),
          body: row.response_body ?? '',
          body_truncated: row.response_complete === false,
        },
  error: row.error_code === null ? null : { code: row.error_code, detail: row.error_detail ?? '' },
  next_attempt_at: row.next_attempt_at && isoTime(row.next_attempt_at),
})

const summaryBasis = chosen(110)

const count = (description: string) => Type.Integer({ minimum: 0, description })

const outcomes = () => ({
  succeeded: count('Attempts that succeeded.'),
  failed: count('Attempts that failed or were interrupted.'),
  p50_ms: ms('Half of the attempts took at most this long; null without attempts.'),
  p95_ms: ms('95 % of the attempts took at most this long.'),
})

export const deliverySummary = Type.Object(
  {
    since: timestamp(
      `What is counted: attempts from here on. Later than asked for if there were more than ${attemptsSummarizedMax.toLocaleString('en')} attempts, or one webhook had more than its equal share of them.`,
    ),
    until: timestamp('Attempts before this.'),
    bucket_seconds: Type.Integer({ description: 'The length of an interval.', examples: [3_600] }),
    ...outcomes(),
    buckets: Type.Array(
      Type.Object({ at: timestamp('Start of the interval.'), ...outcomes() }, { additionalProperties: false }),
      { description: 'By time, oldest first. Intervals without attempts are left out.' },
    ),
    webhooks: Type.Array(
      Type.Object({ webhook_id: id('wh', 'The webhook.'), ...outcomes() }, { additionalProperties: false }),
      { description: 'By webhook. Those without attempts are left out.' },
    ),
  },
  { $id: 'DeliverySummary', additionalProperties: false, ...summaryBasis },
)

const outcomesOf = (row: Pick<OutcomeRow, keyof typeof none>) => ({
  succeeded: row.succeeded,
  failed: row.failed,
  p50_ms: millis(row.p50_us),
  p95_ms: millis(row.p95_us),
})

const none = { succeeded: 0, failed: 0, p50_us: null, p95_us: null }

type Asked = { sinceMs: number; untilMs: number; bucketSeconds: number }

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
