import type { Database, Executor } from '../../db/database.ts'
import type { OrgId } from '../../kernel/ids.ts'

/** `body`: the exact text that is sent and signed. */
export type StoredEvent = { id: string; type: string; body: string }

/** An event that is about to be stored. `traceparent`: of what publishes it, if traces are exported. */
export type PublishedEvent = StoredEvent & { traceparent?: string | null }

export class UnknownOrganization extends Error {
  constructor() {
    super('one of the organizations does not exist')
  }
}

/** `offset 0`: one index look-up for each id, never a scan of an organization's history. */
export const findEventsById = (db: Executor, events: readonly { orgId: OrgId; id: string }[]) =>
  db<(StoredEvent & { orgId: OrgId })[]>`
  select n.org_id as "orgId", e.id, e.type, e.body
  from unnest(${events.map(({ orgId }) => orgId)}::text[], ${events.map(({ id }) => id)}::text[]) as n (org_id, id)
  cross join lateral (
    select e.id, e.type, e.body from keyhook.events e where e.org_id = n.org_id and e.id = n.id offset 0
  ) as e`

export const existingOrganizations = async (db: Executor, ids: readonly OrgId[]): Promise<Set<OrgId>> => {
  const rows = await db<{ id: OrgId }[]>`
    select id from keyhook.organizations where id = any (${[...ids]}::text[])`
  return new Set(rows.map((row) => row.id))
}

export type EventRow = StoredEvent & { seq: string; sequence: string | null; created_at: Date; sample: boolean }

export const findEvent = async (db: Database, orgId: OrgId, id: string): Promise<EventRow | null> => {
  const [row] = await db<EventRow[]>`
    select seq, sequence, id, type, body, created_at, sample from keyhook.events where org_id = ${orgId} and id = ${id}`
  return row ?? null
}
