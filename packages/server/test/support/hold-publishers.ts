import type { OrgId } from '../../src/kernel/ids.ts'
import type { Database } from '../../src/store/database.ts'

/** Takes what the organization's publishers take turns with, until the function that it returns is called. */
export async function holdPublishers(db: Database, orgId: OrgId): Promise<() => Promise<void>> {
  const held = Promise.withResolvers<void>()
  const letGo = Promise.withResolvers<void>()
  const holding = db.begin(async (tx) => {
    await tx`
      insert into keyhook.event_counters (org_id) values (${orgId})
      on conflict (org_id) do update set last_seq = event_counters.last_seq`
    held.resolve()
    await letGo.promise
  })
  await held.promise
  return async () => {
    letGo.resolve()
    await holding
  }
}
