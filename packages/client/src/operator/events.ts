import type { Api } from '../api.ts'
import type { EventType } from '../resources/event-types.ts'
import type { OperatorCreationOptions } from './options.ts'

export type NewEvent = {
  organization_id: string
  type: EventType
  data: Record<string, unknown>
  /** A name of your own: the same name again is the same event, and is not sent twice. */
  id?: string
}

export type AcceptedEvent = { id: string }

export const events = (api: Api) => ({
  /**
   * All of them or none, in one transaction. Up to 1,000. Give them ids of your own if you publish many: then they need no
   * Idempotency-Key, and the server commits requests that arrive together in one transaction.
   */
  publish: async (list: readonly NewEvent[], options: OperatorCreationOptions = {}): Promise<AcceptedEvent[]> => {
    const isNamed = options.idempotencyKey === undefined && list.every(({ id }) => id !== undefined)
    return api[isNamed ? 'idempotent' : 'create']('/operator/v1/events', list, options)
  },
})
