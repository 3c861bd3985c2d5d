import type { PublishingTransaction } from '../db/database.ts'
import type { OrgId } from '../lib/ids.ts'
import type { OptionalData, OptionalType } from './optional-types.ts'
import { publishAll } from './publish.ts'

type OptionalEvents<T extends OptionalType> = { orgId: OrgId; type: T; data: readonly OptionalData<T>[] }

/** Publishes like `publish`, if the type is enabled. Otherwise it costs one look-up by primary key. */
export const publishOptional = <T extends OptionalType>(
  tx: PublishingTransaction,
  { orgId, type, data }: { orgId: OrgId; type: T; data: OptionalData<T> },
): Promise<void> => publishEachOptional(tx, { orgId, type, data: [data] })

/** An event for each of the data, under one lock of the organization's counter. */
export async function publishEachOptional<T extends OptionalType>(
  tx: PublishingTransaction,
  { orgId, type, data }: OptionalEvents<T>,
): Promise<void> {
  if (data.length === 0) return
  const [enabled] = await tx`
    select from keyhook.event_types where name = ${type} and built_in and removed_at is null`
  if (enabled !== undefined) await publishAll(tx, { orgId, type, data })
}
