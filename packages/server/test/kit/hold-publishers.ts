import type { Database } from '../../src/db/database.ts'
import type { OrgId } from '../../src/lib/ids.ts'
import { holdOpen } from './hold-open.ts'

/** Locks the organization's event counter, as a publisher does, until the function that it returns is called. */
export const holdPublishers = (db: Database, orgId: OrgId): Promise<() => Promise<void>> =>
  holdOpen(
    db,
    (tx) => tx`
      insert into keyhook.event_counters (org_id) values (${orgId})
      on conflict (org_id) do update set last_seq = event_counters.last_seq`,
  )
