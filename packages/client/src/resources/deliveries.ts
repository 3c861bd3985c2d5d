import type { EventType } from './event-types.ts'

export type AttemptStatus = 'sending' | 'succeeded' | 'failed' | 'interrupted'

/** Why an attempt failed. */
export type SendErrorCode =
  | 'dns_failed'
  | 'dns_timeout'
  | 'address_forbidden'
  | 'connect_refused'
  | 'connect_unreachable'
  | 'connect_timeout'
  | 'connect_failed'
  | 'tls_failed'
  | 'tls_timeout'
  | 'tls_certificate_invalid'
  | 'timeout'
  | 'connection_closed'
  | 'connection_reset'
  | 'response_malformed'
  | 'response_headers_too_large'
  | 'response_too_large'
  | 'redirect_not_followed'
  | 'status_not_successful'
  | 'sender_exhausted'
  | 'interrupted'

/** One attempt to send an event to a webhook. */
export type Delivery = {
  id: string
  event_id: string
  event_type: EventType
  attempt: number
  status: AttemptStatus
  started_at: string
  duration_ms: number | null
  request: {
    method: 'POST'
    url: string
    headers: Record<string, unknown> | null
    address: string | null
    timings: {
      dns_ms: number | null
      connect_ms: number | null
      tls_ms: number | null
      first_byte_ms: number | null
      total_ms: number | null
    }
  }
  response: {
    status: number
    headers: Record<string, unknown>
    body: string
    body_truncated: boolean
  } | null
  error: { code: SendErrorCode; detail: string } | null
  next_attempt_at: string | null
}
