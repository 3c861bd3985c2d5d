import type { PublishingTransaction } from '../db/database.ts'
import type { OrgId, WebhookId } from '../lib/ids.ts'
import type { OptionalData, OptionalType } from './optional-types.ts'
import { publishAll } from './publish.ts'

/** `except`: a webhook that the events do not go to. */
type Recipients = { orgId: OrgId; except?: WebhookId }
type OptionalEvents<T extends OptionalType> = Recipients & { type: T; data: readonly OptionalData<T>[] }

/** Publishes like `publish`, if the type is enabled. Otherwise it costs one look-up by primary key. */
export const publishOptional = <T extends OptionalType>(
  tx: PublishingTransaction,
  { data, ...event }: Recipients & { type: T; data: OptionalData<T> },
): Promise<void> => publishEachOptional(tx, { ...event, data: [data] })

/** An event for each of the data, under one lock of the organization's counter. */
export async function publishEachOptional<T extends OptionalType>(
  tx: PublishingTransaction,
  { orgId, type, data, except }: OptionalEvents<T>,
): Promise<void> {
  if (data.length === 0) return
  const [enabled] = await tx`
    select from keyhook.event_types where name = ${type} and built_in and removed_at is null`
  if (enabled === undefined) return
  const ids = await publishAll(tx, { orgId, type, data })
  // Before the commit, so that no dispatcher has seen them.
  if (except !== undefined) {
    await tx`
      delete from keyhook.deliveries d using keyhook.events e, keyhook.webhooks w
      where e.org_id = ${orgId} and e.id = any (${ids}::text[]) and w.org_id = ${orgId} and w.id = ${except}
        and d.org_id = ${orgId} and d.event_seq = e.seq and d.lane_id = w.lane_id`
  }
}
