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
  /** All of them or none, in one transaction. Up to 1,000. */
  publish: async (list: readonly NewEvent[], options: OperatorCreationOptions = {}): Promise<AcceptedEvent[]> =>
    api.create('/operator/v1/events', list, options),
})
