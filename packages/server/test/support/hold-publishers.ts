import type { OrgId } from '../../src/kernel/ids.ts'
import type { Database } from '../../src/store/database.ts'
import { holdOpen } from './hold-open.ts'

/** Locks the event counter of an organization, which publishers need, until the returned function is called. */
export const holdPublishers = (db: Database, orgId: OrgId): Promise<() => Promise<void>> =>
  holdOpen(
    db,
    (tx) => tx`
      insert into keyhook.event_counters (org_id) values (${orgId})
      on conflict (org_id) do update set last_seq = event_counters.last_seq`,
  )
