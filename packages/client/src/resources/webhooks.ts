import type { Api, ListOptions, OrganizationOptions } from '../api.ts'
import type { List } from '../list.ts'
import type { EventType } from './event-types.ts'

export type NewWebhook = { url: string; event_types: EventType[] }
export type Webhook = { id: string; url: string; event_types: EventType[]; created_at: string }
/** `secret` is shown here and never again. */
export type CreatedWebhook = Webhook & { secret: string }

export const webhooks = (api: Api) => ({
  /** Never repeated by itself: when the answer is lost, delete the webhook that you find in the list, and create another. */
  create: (webhook: NewWebhook, options: OrganizationOptions = {}): Promise<CreatedWebhook> =>
    api.change('POST', api.published(options, 'webhooks'), webhook, options),

  list: (options: ListOptions = {}): List<Webhook> => api.list(api.published(options, 'webhooks'), options),

  delete: (id: string, options: OrganizationOptions = {}): Promise<void> =>
    api.erase(api.published(options, 'webhooks', id), options),
})
