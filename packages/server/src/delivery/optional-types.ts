import type { CustomEventType } from './events.ts'

type FieldSchema = { type: string | string[]; description: string }
const text = (description: string): FieldSchema => ({ type: 'string', description })
const textOrNull = (description: string): FieldSchema => ({ type: ['string', 'null'], description })

type Declaration<Data> = {
  firesWhen: string
  fields: { [Field in keyof Data]: FieldSchema }
  /** The data of test events. */
  sample: Data
}
const declare = <Data extends object>(declaration: Declaration<Data>) => declaration

const key = {
  api_key_id: text('The key.'),
  name: text('Its name.'),
  key_prefix: text('The leading part of the key, which is not secret.'),
}
const sampleKey: KeyData = { api_key_id: 'key_00000000000000000000000000', name: 'sample', key_prefix: 'kh_Example1' }

type KeyData = { api_key_id: string; name: string; key_prefix: string }

const webhook = {
  webhook_id: text('The webhook.'),
  url: text('Its URL, without the query.'),
  failing_since: text('When the third attempt in a row failed.'),
}
const sampleWebhook: WebhookData = {
  webhook_id: 'wh_00000000000000000000000000',
  url: 'https://example.com/hooks',
  failing_since: '2026-01-31T12:00:00.000Z',
}

type WebhookData = { webhook_id: string; url: string; failing_since: string }

/**
 * Event types beside the six of the published interface, which the operator may enable. A new one is an entry here and a call of
 * `publishOptional`.
 */
const declarations = {
  'key.created': declare<KeyData & { created_by: string; created_by_key: string | null; expires_at: string | null }>({
    firesWhen: 'An API key is created, also by a rotation.',
    fields: {
      ...key,
      created_by: text('The user whom the key acts as.'),
      created_by_key: textOrNull('The key that it was created with; null for a login token.'),
      expires_at: textOrNull('When it expires; null: never.'),
    },
    sample: {
      ...sampleKey,
      created_by: 'usr_00000000000000000000000000',
      created_by_key: null,
      expires_at: '2027-01-31T00:00:00.000Z',
    },
  }),
  'key.revoked': declare<KeyData & { reason: RevocationReason }>({
    firesWhen: 'An API key is revoked, in whatever way.',
    fields: {
      ...key,
      reason: text(
        'Why: `revoked` (by a request), `creator_revoked` (with the key that created it), `member_removed`, `rotated`, `expired` or `leaked`. Others may be added.',
      ),
    },
    sample: { ...sampleKey, reason: 'revoked' },
  }),
  'key.leaked': declare<KeyData & { found_at: string | null; also_revoked: number }>({
    firesWhen: 'An API key is reported as leaked, once. It is revoked with every key that was created with it.',
    fields: {
      ...key,
      found_at: textOrNull('Where it was found, as the reporter wrote it; null if that is not known.'),
      also_revoked: {
        type: 'integer',
        description: 'How many other active keys were created with it, directly or not.',
      },
    },
    sample: { ...sampleKey, found_at: 'https://github.com/octocat/Hello-World/blob/main/deploy.sh', also_revoked: 0 },
  }),
  'key.expiring': declare<KeyData & { expires_at: string; days_left: number }>({
    firesWhen: 'An API key expires in 14, 7 or 1 days. One whose end was set later than that fires what is left.',
    fields: {
      ...key,
      expires_at: text('When it expires.'),
      days_left: { type: 'integer', description: 'The days until then, rounded up.' },
    },
    sample: { ...sampleKey, expires_at: '2027-01-31T00:00:00.000Z', days_left: 14 },
  }),
  'webhook.failing': declare<WebhookData & { error: string | null }>({
    firesWhen: 'Three attempts in a row to deliver to a webhook have failed. It goes to other webhooks only.',
    fields: {
      ...webhook,
      error: textOrNull('How the last attempt ended: an `error.code` of deliveries, or `HTTP 503`.'),
    },
    sample: { ...sampleWebhook, error: 'HTTP 503' },
  }),
  'webhook.suspended': declare<WebhookData & { waiting: number }>({
    firesWhen: 'A webhook has failed for so long that its deliveries wait. It goes to other webhooks only.',
    fields: { ...webhook, waiting: { type: 'integer', description: 'Deliveries that wait, 100,000 at most.' } },
    sample: { ...sampleWebhook, waiting: 250 },
  }),
  'webhook.recovered': declare<WebhookData>({
    firesWhen: 'An attempt has succeeded after a webhook failed or was suspended. It goes to other webhooks only.',
    fields: webhook,
    sample: sampleWebhook,
  }),
}

export type RevocationReason = 'revoked' | 'creator_revoked' | 'member_removed' | 'rotated' | 'expired' | 'leaked'

export type OptionalType = keyof typeof declarations
export type OptionalData<T extends OptionalType> = (typeof declarations)[T]['sample']

export const optionalTypes = Object.keys(declarations) as OptionalType[]
export const isOptionalType = (name: string): name is OptionalType => Object.hasOwn(declarations, name)

/** As it is stored while it is enabled. */
export function optionalDeclaration(name: OptionalType): CustomEventType {
  const { firesWhen, fields, sample } = declarations[name]
  return {
    name,
    description: firesWhen,
    schema: JSON.stringify({ type: 'object', properties: fields, required: Object.keys(fields) }),
    example: JSON.stringify(sample),
  }
}
