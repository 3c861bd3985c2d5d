import type { Executor } from '../db/database.ts'

/** A suspended webhook is tried so often. */
export const probeMs = 3_600_000
/** For so long. Then the schedules of its deliveries go on, so that nothing waits for ever. */
export const suspensionMs = 30 * 86_400_000

const lanesMax = 1_000

/**
 * Suspends webhooks that have failed for so many hours, or as many as their organization chose, and returns how many. Locked and
 * paused ones are left for the next time. A free lane that has work becomes due for the first probe.
 */
export const suspendFailing = async (
  db: Executor,
  { afterHours, ...times }: { afterHours: number; probeMs: number; suspensionMs: number },
): Promise<number> => {
  const suspended = await db`
    with failing as materialized (
      select l.id, l.org_id, l.webhook_id, l.failing_since from keyhook.lanes l
      join keyhook.organizations o on o.id = l.org_id
      where l.failing_since <= now() and l.suspended_until is null and l.ended_at is null
        and (l.paused_until > now()) is not true
        and coalesce(o.suspend_after_hours, ${afterHours}::float8) > 0
        and l.failing_since <= now() - coalesce(o.suspend_after_hours, ${afterHours}::float8) * interval '1 hour'
      order by l.id limit ${lanesMax} for no key update of l skip locked
    ), suspended as (
      update keyhook.lanes l
      set suspended_until = now() + ${times.suspensionMs} * interval '1 millisecond',
        probe_at = now() + ${times.probeMs} * interval '1 millisecond',
        due_at = case
          when l.lease_owner is null then least(l.due_at, now() + ${times.probeMs} * interval '1 millisecond')
          else l.due_at
        end
      from failing f where l.id = f.id
    )
    insert into keyhook.webhook_changes (org_id, webhook_id, kind, since)
    select f.org_id, f.webhook_id, 'suspended', f.failing_since from failing f`
  return suspended.count
}
