import { type Api, createApi, pathOf } from './api.ts'
import type { EventType } from './resources/event-types.ts'
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

const invoices = (api: Api) => ({
  /** Marks an invoice paid, once. */
  pay: async (id: string, options: CallOptions = {}): Promise<object> =>
    api.change('POST', pathOf('/operator/v1/invoices', id, 'pay'), undefined, options),
})

export type OperatorClient = ReturnType<typeof createOperatorClient>

/** A client of `/operator/v1`. Its token is an operator token. */
export function createOperatorClient(options: TransportOptions) {
  const api = createApi(createTransport(options))
  return { events: events(api), invoices: invoices(api) }
}
