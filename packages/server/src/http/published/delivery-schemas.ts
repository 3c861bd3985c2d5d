import Type from 'typebox'
import { readHeaders } from '../../domain/recorded-headers.ts'
import { sendErrorCodes } from '../../domain/send-errors.ts'
import { type AttemptId, attemptIdOf } from '../../kernel/ids.ts'
import { isoTime } from '../../kernel/iso-time.ts'
import type { HistoryRow } from '../../store/delivery/history.ts'
import { choice, chosen, mark, specified } from '../basis.ts'
import { shownEventType } from '../event-type-schemas.ts'
import { id, moment, nullable } from '../schemas.ts'

const here = chosen(35)
const headers = (description: string) => Type.Record(Type.String(), Type.Unknown(), { description })
const ms = (description: string) => mark(here, nullable(Type.Number({ minimum: 0, description })))

const request = Type.Object(
  {
    method: mark(here, Type.Literal('POST', { description: 'Always POST.' })),
    url: mark(here, Type.String({ description: 'Where it was sent, as it was called.' })),
    headers: mark(
      here,
      nullable(headers('What was sent with it, the signature included. Null while it is in flight.')),
      choice(44, 'Null also for an attempt whose dispatcher ended before it could record them.'),
    ),
    address: mark(
      here,
      nullable(Type.String({ description: 'The address of the socket that was used.' })),
      choice(46, 'From the hosts file, then DNS, without search domains; forbidden addresses are left out.'),
    ),
    timings: mark(
      here,
      Type.Object(
        {
          dns_ms: ms('The look-up of the name. Null on a connection that was there already, or for an address.'),
          connect_ms: ms('The TCP connection.'),
          tls_ms: ms('The TLS handshake.'),
          first_byte_ms: ms('From the start to the first byte of the response.'),
          total_ms: ms('From the start to the end.'),
        },
        { additionalProperties: false, description: 'How long each part took.' },
      ),
    ),
  },
  { additionalProperties: false, description: 'What was sent.' },
)

const response = Type.Object(
  {
    status: mark(here, Type.Integer({ description: 'The HTTP status.' })),
    headers: mark(here, headers('The header fields.')),
    body: mark(
      here,
      Type.String({ description: 'The beginning of the body, as text.' }),
      choice(22, 'The first 16 KiB, unless the operator has set another limit.'),
    ),
    body_truncated: mark(
      here,
      Type.Boolean({ description: 'Whether there was more than is kept, or should have been.' }),
      choice(
        36,
        'Up to 1 MiB is read; more is a failure. A compressed body is not kept: then this is true, and `body` empty.',
      ),
    ),
  },
  { additionalProperties: false, description: 'What the receiver answered; null if it did not.' },
)

export const attemptStatuses = ['sending', 'succeeded', 'failed', 'interrupted'] as const

export const deliveryRecord = Type.Object(
  {
    id: mark(chosen(18), id('dlv', 'This attempt.')),
    event_id: mark(chosen(18), Type.String({ description: 'The event that was sent.' })),
    event_type: mark(chosen(18), shownEventType('Its type.')),
    attempt: mark(
      chosen(18),
      Type.Integer({ minimum: 1, description: 'Which attempt of this delivery it is, counted from 1.' }),
    ),
    status: mark(
      specified,
      Type.Enum([...attemptStatuses], {
        description: 'How this attempt stands.',
      }),
      choice(18, 'These four values: `sending` turns into one of the others, and they stay.'),
      choice(19, '`succeeded` is an answer of 2xx; a redirect is `failed`.'),
      choice(44, '`interrupted`: the dispatcher stopped before it knew the outcome; the event is sent again.'),
    ),
    started_at: mark(chosen(18), moment('When it began.')),
    duration_ms: mark(chosen(18), nullable(Type.Number({ minimum: 0, description: 'How long it took.' }))),
    request: mark(chosen(18), request),
    response: mark(specified, nullable(response), choice(35, 'Its form; null when none was received.')),
    error: mark(
      chosen(18),
      nullable(
        Type.Object(
          {
            code: mark(
              chosen(34),
              Type.Enum([...sendErrorCodes], { description: 'What went wrong: test for this one.' }),
            ),
            detail: mark(chosen(34), Type.String({ description: 'The same for people.' })),
          },
          { additionalProperties: false, description: 'Why it failed; null if it did not.' },
        ),
      ),
    ),
    next_attempt_at: mark(
      chosen(18),
      nullable(moment('When it is tried again; null if it is not.')),
      choice(20, 'By the schedule, which `Retry-After` can lengthen and 410 ends.'),
    ),
  },
  { $id: 'Delivery', additionalProperties: false },
)

const millis = (us: number | null): number | null => (us === null ? null : us / 1_000)

export const deliveryRecordOf = (row: HistoryRow, url: string) => ({
  id: attemptIdOf(row.id) satisfies AttemptId,
  event_id: row.event_id,
  event_type: row.event_type,
  attempt: row.attempt,
  status: row.status,
  started_at: isoTime(row.started_at),
  duration_ms: millis(row.duration_us),
  request: {
    method: 'POST',
    url,
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
