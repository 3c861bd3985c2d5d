import { ensurePartitions } from '../../../server/src/delivery/retention-sql.ts'
import { api, orgId } from './console-test.ts'

/** Attempts of the past in the database, `everySeconds` apart; every `failing`th has failed. The webhook needs one delivery. */
export async function addAttempts(
  webhookId: string,
  { count, everySeconds, failing }: { count: number; everySeconds: number; failing: number },
): Promise<void> {
  await ensurePartitions(api.db, Date.now() - count * everySeconds * 1_000)
  await api.db`
    insert into keyhook.attempts (lane_id, id, org_id, event_seq, attempt, status, started_at, duration_us)
    select w.lane_id, (lpad(to_hex((extract(epoch from p.at) * 1000)::bigint), 12, '0') || '7' || substr(md5(p.n::text), 1, 3)
        || '8' || substr(md5(p.n::text), 4, 15))::uuid,
      w.org_id, w.event_seq, 2, case when p.n % ${failing}::int = 0 then 'failed' else 'succeeded' end, p.at,
      40000 + p.n * 7919 % 30000
    from (
        select n, now() - n * ${everySeconds}::int * interval '1 second' as at from generate_series(1, ${count}::int) n
      ) p,
      (
        select w.lane_id, w.org_id, min(d.event_seq) as event_seq
        from keyhook.webhooks w join keyhook.deliveries d on d.lane_id = w.lane_id
        where w.org_id = ${orgId} and w.id = ${webhookId} group by w.lane_id, w.org_id
      ) w`
}
