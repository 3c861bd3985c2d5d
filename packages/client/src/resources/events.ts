import type { Api, ListOptions, OrganizationOptions } from '../api.ts'
import { streamEvents } from '../event-stream.ts'
import type { List } from '../list.ts'
import type { Query } from '../transport.ts'
import type { AttemptStatus, SendErrorCode } from './deliveries.ts'
import type { EventType } from './event-types.ts'

export type EventRecord = {
  /** Position in the organization: numbers have no gaps. */
  sequence: number
  id: string
  type: EventType
  created_at: string
  /** Exactly the text that is sent and signed. */
  body: string
  /** How its deliveries stand, if asked for; null if it goes to more than 200 webhooks. */
  outcomes?: EventOutcomes | null
}

/** Webhooks by how the delivery of one event to them stands. */
export type EventOutcomes = {
  succeeded: number
  /** The last attempt failed, and another follows. */
  failing: number
  /** The retries are over, or the webhook was deleted. */
  failed: number
  /** No attempt has finished yet, or the event is sent once more. */
  waiting: number
  /** Finished; the attempts have left the history. */
  expired: number
}

/** Where one event went, and why not elsewhere. */
export type ExplainedEvent = Omit<EventRecord, 'sequence' | 'outcomes'> & {
  /** Null for a test event. */
  sequence: number | null
  test: boolean
  delivered_to: {
    webhook_id: string
    url: string
    status: 'waiting' | 'sending' | 'succeeded' | 'failed' | 'expired'
    attempts: EventAttempt[]
  }[]
  not_delivered_to: {
    webhook_id: string
    url: string
    reason: 'not_subscribed' | 'webhook_created_later' | 'webhook_deleted' | 'sample_for_another_webhook'
  }[]
}

export type EventAttempt = {
  id: string
  attempt: number
  status: AttemptStatus
  started_at: string
  duration_ms: number | null
  response_status: number | null
  error_code: SendErrorCode | null
  next_attempt_at: string | null
  /** A redelivery or recovery asked for it, and the retry schedule started again with it. */
  redelivered: boolean
}

export type EventFilter = {
  /** Events after this sequence number. */
  after?: number | undefined
  /** Events before this sequence number. */
  before?: number | undefined
  /** Events from this time on (RFC 3339). */
  since?: string | undefined
  /** Events before this time. */
  until?: string | undefined
  eventTypes?: readonly EventType[] | undefined
  /** `desc`, newest first, by default. */
  order?: 'asc' | 'desc' | undefined
  /** `outcomes`: with each event how its deliveries stand, unless the token may not read deliveries. */
  include?: 'outcomes' | undefined
}

export type StreamOptions = Omit<OrganizationOptions, 'timeoutMs' | 'retries'> & {
  /** Start after this sequence number. Without it: with the next event that happens. */
  after?: number | undefined
  eventTypes?: readonly EventType[] | undefined
  /** Called when the connection was lost, before each new attempt. */
  onReconnect?: ((error: unknown) => void) | undefined
  /** Called when a connection is open: the first one, and each that replaces a lost one. */
  onConnect?: (() => void) | undefined
}

export type ReconcileOptions = OrganizationOptions & {
  /** The last sequence number that was handled; 0 before the first. */
  after: number
  eventTypes?: readonly EventType[] | undefined
}

export const events = (api: Api) => {
  const list = ({
    after,
    before,
    since,
    until,
    eventTypes,
    order,
    include,
    ...options
  }: ListOptions & EventFilter = {}) => {
    const query: Query = { after, before, since, until, order, include, event_types: eventTypes }
    return api.list<EventRecord>(api.platform(options, 'events'), options, query)
  }
  return {
    list: list as (options?: ListOptions & EventFilter) => List<EventRecord>,

    /** Where the event went and where it did not, with every attempt. */
    get: async (id: string, options: OrganizationOptions = {}): Promise<ExplainedEvent> =>
      api.get(api.platform(options, 'events', id), options),

    /**
     * Events as they happen. It reconnects by itself and resumes after the last event, so none is lost; leave the loop to stop.
     * Fails with `events.expired` if the position is older than what is kept.
     */
    stream: ({
      after,
      eventTypes,
      onReconnect,
      onConnect,
      ...options
    }: StreamOptions = {}): AsyncIterable<EventRecord> =>
      streamEvents<EventRecord>(api.transport, {
        path: api.platform(options, 'events', 'stream'),
        query: { event_types: eventTypes },
        after,
        signal: options.signal,
        onReconnect,
        onConnect,
      }),

    /**
     * The events after the last one that was handled, oldest first; ends when there are no more. Fails with `events.expired` if
     * some of them are no longer kept.
     */
    reconcile: (options: ReconcileOptions): List<EventRecord> => list({ ...options, order: 'asc' }),
  }
}
