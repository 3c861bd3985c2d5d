import type { Database } from '../db/database.ts'
import type { OrgId } from '../lib/ids.ts'

/** Returns the counts of all processes together. In the order of the primary key, so that two processes cannot deadlock. */
export async function addRequestCounts(
  db: Database,
  minute: number,
  added: readonly { subject: string; count: number }[],
): Promise<Map<string, number>> {
  const rows = await db<{ subject: string; count: number }[]>`
    insert into keyhook.request_counts as known (minute, subject, count)
    select ${minute}, a.subject, a.count
    from unnest(${added.map(({ subject }) => subject)}::text[], ${added.map(({ count }) => count)}::integer[])
      as a (subject, count)
    order by a.subject collate "C"
    on conflict (minute, subject) do update set count = known.count + excluded.count
    returning subject, count`
  return new Map(rows.map(({ subject, count }) => [subject, count]))
}

export const deleteOldRequestCounts = (db: Database, before: number) =>
  db`delete from keyhook.request_counts where minute < ${before}`

type ChangedRow = {
  now_ms: number
  until: Date
  org_id: OrgId | null
  key_requests: number | null
  requests: number | null
}

/**
 * The request limits of organizations that were set since then, and the clock of PostgreSQL. `until` is a minute ago: a transaction
 * may commit a quota some time after the time that it has given it.
 */
export async function changedRequestLimits(db: Database, since: Date) {
  const rows = await db<ChangedRow[]>`
    select (date_part('epoch', clock_timestamp()) * 1000)::float8 as now_ms, now() - interval '1 minute' as until,
      q.org_id, q.key_requests, q.requests
    from (values (1)) as once
    left join keyhook.organization_quotas q on q.changed_at > ${since}`
  const { now_ms: nowMs, until } = rows[0]!
  const limits = rows.flatMap(({ org_id: orgId, key_requests: perKey, requests: perOrganization }) =>
    orgId === null ? [] : [{ orgId, perKey, perOrganization }],
  )
  return { nowMs, until, limits }
}
