import type { Api, CreationOptions, ListOptions, OrganizationOptions, SecretCreation } from '../api.ts'
import type { List } from '../list.ts'
import type { Delivery, SendErrorCode } from './deliveries.ts'
import type { EventType } from './event-types.ts'

export type NewWebhook = { url: string; event_types: EventType[] }

/** `secret` is shown here and never again. */
export type CreatedWebhook = { id: string; url: string; event_types: EventType[]; created_at: string; secret: string }

export type Webhook = {
  id: string
  url: string
  event_types: EventType[]
  description: string | null
  /** `failing`: the last three attempts failed. `suspended`: that lasted, so deliveries wait and one is tried every hour. */
  status: 'active' | 'failing' | 'suspended' | 'paused'
  paused_until: string | null
  failing_since: string | null
  /** When a suspension without any success ends. */
  suspended_until: string | null
  /** Deliveries per second; null without a limit. */
  rate_limit: number | null
  secret_rotation: SecretRotation | null
  created_by: string
  created_at: string
  /** When the newest secret was made; null if that was long ago and is not known. */
  secret_created_at: string | null
  health: WebhookHealth
}

export type SecretRotation = {
  started_at: string
  ends_at: string
  /** Whether `X-Service-Signature` uses the new secret already. */
  switched: boolean
}

/** Attempts of the last 24 hours. */
export type WebhookHealth = {
  since: string
  succeeded: number
  failed: number
  success_share: number | null
  last_failure: {
    delivery_id: string
    at: string
    error_code: SendErrorCode | null
    response_status: number | null
  } | null
  oldest_waiting_at: string | null
  /** Deliveries that are not finished; 10,000 stands for that many or more. */
  waiting: number
  /** When the next attempt is due, or since when; null if none is to come. */
  next_attempt_at: string | null
}

export type WebhookChanges = {
  url?: string
  event_types?: EventType[]
  description?: string | null
  rate_limit?: number | null
}

/** `overlap_seconds`: how long both secrets are valid unless you switch; 30 days by default, 0 for not at all. */
export type NewRotation = { overlap_seconds?: number }

/** `overlap_seconds`: how long the old secret stays valid after the switch; a day by default, 0 for not at all. */
export type SecretSwitch = { overlap_seconds?: number }

/** `secret` is shown here and never again. */
export type RotatedSecret = { secret: string; secret_rotation: SecretRotation | null }

export type NewTestEvent = { event_type: EventType }
export type TestEvent = { event_id: string }
export type Redelivery = { delivery_id: string }
export type NewRecovery = { since: string; until?: string; dry_run?: boolean }
export type StartedRecovery = { id: string | null; matching: number }

export type Recovery = {
  id: string
  status: 'running' | 'finished'
  since: string
  until: string
  redelivered: number
  created_at: string
  finished_at: string | null
}

/** Hours of failing after which webhooks are suspended; 0: never. `after_hours` is null if the operator's number holds. */
export type WebhookSuspension = { after_hours: number | null; operator_after_hours: number }

export const webhooks = (api: Api) => {
  const path = (options: OrganizationOptions, ...segments: string[]) => api.platform(options, 'webhooks', ...segments)

  return {
    /** Never repeated by itself: when the answer is lost, delete the webhook that you find in the list, and create another. */
    create: async (webhook: NewWebhook, options: OrganizationOptions = {}): Promise<CreatedWebhook> =>
      api.change('POST', api.published(options, 'webhooks'), webhook, options),

    list: (options: ListOptions = {}): List<Webhook> => api.list(path(options), options),

    get: async (id: string, options: OrganizationOptions = {}): Promise<Webhook> => api.get(path(options, id), options),

    update: async (id: string, changes: WebhookChanges, options: OrganizationOptions = {}): Promise<Webhook> =>
      api.change('PATCH', path(options, id), changes, options),

    /** Events wait, and are sent in order after `until`; that is in 7 days unless given. */
    pause: async (id: string, pause: { until?: string } = {}, options: OrganizationOptions = {}): Promise<Webhook> =>
      api.change('POST', path(options, id, 'pause'), pause, options),

    resume: async (id: string, options: OrganizationOptions = {}): Promise<Webhook> =>
      api.change('POST', path(options, id, 'resume'), undefined, options),

    /** Never repeated by itself: a second rotation would replace the secret that the first one made. */
    rotateSecret: (async (id: string, rotation: NewRotation = {}, options: CreationOptions = {}) =>
      api.createSecret(path(options, id, 'rotate-secret'), rotation, options)) as SecretCreation<
      [id: string, rotation?: NewRotation],
      OrganizationOptions,
      RotatedSecret,
      Omit<RotatedSecret, 'secret'> & { secret?: string }
    >,

    /** When webhooks of the organization are suspended. */
    suspension: async (options: OrganizationOptions = {}): Promise<WebhookSuspension> =>
      api.get(api.platform(options, 'webhook-suspension'), options),

    setSuspension: async (
      suspension: Pick<WebhookSuspension, 'after_hours'>,
      options: OrganizationOptions = {},
    ): Promise<WebhookSuspension> =>
      api.change('PUT', api.platform(options, 'webhook-suspension'), suspension, options),

    /** `X-Service-Signature` uses the new secret from now on. Another call changes when the old secret ends. */
    switchSecret: async (id: string, change: SecretSwitch = {}, options: OrganizationOptions = {}): Promise<Webhook> =>
      api.change('POST', path(options, id, 'switch-secret'), change, options),

    delete: async (id: string, options: OrganizationOptions = {}): Promise<void> =>
      api.erase(api.published(options, 'webhooks', id), options),

    /** Sends a sample to this webhook alone, signed with the new secret while the secret is rotated. */
    test: async (id: string, event: NewTestEvent, options: CreationOptions = {}): Promise<TestEvent> =>
      api.create(path(options, id, 'test'), event, options),

    /** Every attempt, newest first. */
    deliveries: (id: string, options: ListOptions = {}): List<Delivery> =>
      api.list(api.published(options, 'webhooks', id, 'deliveries'), options),

    redeliver: async (id: string, deliveryId: string, options: CreationOptions = {}): Promise<Redelivery> =>
      api.create(path(options, id, 'deliveries', deliveryId, 'redeliver'), undefined, options),

    /** Redelivers every event of a time range that did not arrive. */
    recover: async (id: string, range: NewRecovery, options: CreationOptions = {}): Promise<StartedRecovery> =>
      api.create(path(options, id, 'recover'), range, options),

    recovery: async (id: string, recoveryId: string, options: OrganizationOptions = {}): Promise<Recovery> =>
      api.get(path(options, id, 'recoveries', recoveryId), options),
  }
}
