import { type Api, createApi, pathOf } from './api.ts'
import type { EventType } from './resources/event-types.ts'
import type { Invoice } from './resources/invoices.ts'
import { type CallOptions, createTransport, type TransportOptions } from './transport.ts'

export type NewEvent = {
  organization_id: string
  type: EventType
  data: Record<string, unknown>
  /** A name of your own: the same name again is the same event, and is not sent twice. */
  id?: string
}

export type AcceptedEvent = { id: string }

const events = (api: Api) => ({
  /** All of them or none, in one transaction. Up to 1,000. */
  publish: async (list: readonly NewEvent[], options: CallOptions = {}): Promise<AcceptedEvent[]> =>
    api.change('POST', '/operator/v1/events', list, options),
})

export type Role = 'owner' | 'admin' | 'member'

/** What a token may do now (RFC 7662). Fields other than `active` are only there for an active token. */
export type Introspection = {
  active: boolean
  token_type?: 'api_key' | 'login'
  sub?: string
  organization_id?: string | null
  role?: Role | null
  permissions?: string[]
  key_id?: string
  exp?: number
  organizations?: { id: string; role: Role }[]
}

export type IntrospectionRequest = { token: string; organization_id?: string; token_type_hint?: string }
export type IntrospectionBatch = { tokens: string[]; organization_id?: string }

const invoices = (api: Api) => ({
  /** Marks an invoice paid, once. */
  pay: async (id: string, options: CallOptions = {}): Promise<Invoice> =>
    api.change('POST', pathOf('/operator/v1/invoices', id, 'pay'), undefined, options),
})

export type OperatorClient = ReturnType<typeof createOperatorClient>

/** A client of `/operator/v1`. Its token is an operator token. */
export function createOperatorClient(options: TransportOptions) {
  const api = createApi(createTransport(options))
  return {
    events: events(api),
    invoices: invoices(api),

    /** Whether a token is accepted now, and what it may do. */
    introspect: async (request: IntrospectionRequest, options: CallOptions = {}): Promise<Introspection> =>
      api.change('POST', '/operator/v1/introspect', request, options),

    /** The same for up to 1,000 tokens, in their order. */
    introspectBatch: async (batch: IntrospectionBatch, options: CallOptions = {}): Promise<Introspection[]> =>
      api.change('POST', '/operator/v1/introspect/batch', batch, options),
  }
}
