import type { Api, ListOptions, OrganizationOptions } from '../api.ts'
import type { Query } from '../transport.ts'
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

/** An attempt in the lists of the whole organization. */
export type OrganizationDelivery = Delivery & {
  webhook_id: string
  /** A redelivery or recovery asked for it, and the retry schedule started again with it. */
  redelivered: boolean
}

export type DeliveryFilter = {
  webhookId?: string | undefined
  status?: AttemptStatus | undefined
  eventTypes?: readonly EventType[] | undefined
  eventId?: string | undefined
  /** The HTTP status of the answer: `500`, `4xx`, or `none` for attempts that failed without an answer. */
  responseStatus?: string | undefined
  errorCode?: SendErrorCode | undefined
  /** Attempts that started from this time on (RFC 3339). */
  since?: string | undefined
  /** Attempts that started before this time. */
  until?: string | undefined
}

/** How many attempts succeeded and failed, and how long half of them and 95 % of them took at most. */
type Outcomes = { succeeded: number; failed: number; p50_ms: number | null; p95_ms: number | null }

export type DeliverySummary = Outcomes & {
  /** What is counted: later than asked if there were too many attempts. */
  since: string
  until: string
  bucket_seconds: number
  /** Oldest first; those without attempts are left out. */
  buckets: (Outcomes & { at: string })[]
  webhooks: (Outcomes & { webhook_id: string })[]
}

export type SummaryOptions = OrganizationOptions & {
  since: string
  until?: string | undefined
  bucketSeconds?: number | undefined
  webhookId?: string | undefined
}

export const deliveries = (api: Api) => ({
  /** Attempts to all webhooks, newest first. */
  list: (given: ListOptions & DeliveryFilter = {}) => {
    const { webhookId, status, eventTypes, eventId, responseStatus, errorCode, since, until, ...options } = given
    const query: Query = {
      webhook_id: webhookId,
      status,
      event_types: eventTypes,
      event_id: eventId,
      response_status: responseStatus,
      error_code: errorCode,
      since,
      until,
    }
    return api.list<OrganizationDelivery>(api.platform(options, 'deliveries'), options, query)
  },

  get: async (id: string, options: OrganizationOptions = {}): Promise<OrganizationDelivery> =>
    api.get(api.platform(options, 'deliveries', id), options),

  /** Outcomes and latency over time, for charts. */
  summary: async ({ since, until, bucketSeconds, webhookId, ...options }: SummaryOptions): Promise<DeliverySummary> =>
    api.get(api.platform(options, 'delivery-summary'), options, {
      since,
      until,
      bucket_seconds: bucketSeconds,
      webhook_id: webhookId,
    }),
})
