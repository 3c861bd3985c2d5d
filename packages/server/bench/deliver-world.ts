import type { Database } from '../src/db/database.ts'
import { listAttempts } from '../src/delivery/history-sql.ts'
import { ensurePartitions } from '../src/delivery/retention-sql.ts'
import { newId, type OrgId } from '../src/lib/ids.ts'
import type { MasterKeys } from '../src/lib/master-keys.ts'
import { createOrganization, createUser } from '../src/organizations/rules.ts'
import { insertWebhook } from '../src/webhooks/sql.ts'
import type { Peer } from './deliver-peer.ts'
import { median } from './median.ts'

export type Fillable = { db: Database; masterKeys: MasterKeys; url: string }
export type World = Fillable & { receiver: Peer; sender: Peer }

const operator = { kind: 'operator', tokenId: null, address: null } as const
let people = 0

/** An organization with that many webhooks at each path: `<path>/0`, `<path>/1` … */
export async function addOrganization(world: Fillable, webhooks: number, ...paths: string[]): Promise<OrgId> {
  const { db, masterKeys, url } = world
  return db.begin(async (tx) => {
    const { id: orgId } = await createOrganization(tx, operator, { name: 'Bench' })
    people += 1
    const user = await createUser(tx, { email: `bench-${people}@example.com`, name: null, subject: null })
    for (const place of paths.flatMap((path) => Array.from({ length: webhooks }, (_, i) => `${path}/${i}`))) {
      const id = newId('wh')
      const secret = masterKeys.seal(`whsec_${Buffer.alloc(32, 3).toString('base64')}`, id)
      const eventTypes = ['database.created' as const]
      await insertWebhook(tx, orgId, { id, url: `${url}${place}`, eventTypes, secret, createdBy: user.id }, 1e6)
    }
    return orgId
  })
}

/** Many events at once, 300 bytes each, with a delivery for every webhook, as a publisher would write them. */
export async function fillBacklog({ db }: World, orgId: OrgId, events: number): Promise<void> {
  const count = Math.ceil(events)
  await db.begin(async (tx) => {
    const [counter] = await tx<{ last_seq: string }[]>`
      insert into keyhook.event_counters as c (org_id, last_seq, last_sequence) values (${orgId}, ${count}, ${count})
      on conflict (org_id) do update set last_seq = c.last_seq + ${count}, last_sequence = c.last_sequence + ${count}
      returning last_seq`
    const last = Number(counter!.last_seq)
    await tx`
      insert into keyhook.events (org_id, seq, sequence, id, type, body)
      select ${orgId}, n, n, 'evt_' || lpad(n::text, 26, '0'), 'database.created',
        '{"id":"evt_' || lpad(n::text, 26, '0') || '","type":"database.created","timestamp":"2026-01-01T00:00:00.000Z","data":{"database_id":"db_01h455vb4pex5vsknk084sn02q","name":"' || repeat('x', 130) || '"}}'
      from generate_series(${last - count + 1}::bigint, ${last}::bigint) n`
    await tx`insert into keyhook.wakes values (${orgId}, ${last - count + 1}, ${last})`
    await tx`
      insert into keyhook.deliveries (org_id, event_seq, lane_id, sequence, previous_sequence)
      select ${orgId}, n, w.lane_id, n, nullif(n - 1, 0) from generate_series(${last - count + 1}::bigint, ${last}::bigint) n
      cross join keyhook.webhooks w where w.org_id = ${orgId}`
  })
  await db`analyze keyhook.deliveries, keyhook.events`
}

/** Deletes waiting deliveries, so that they do not affect the next measurement. */
export async function clearBacklog({ db }: World): Promise<void> {
  await db`delete from keyhook.wakes`
  await db`
    update keyhook.lanes l set cursor_seq = c.last_seq, head_seq = 0, due_at = null
    from keyhook.event_counters c where c.org_id = l.org_id`
  await db`delete from keyhook.in_flight`
  await db`delete from keyhook.retries`
  // Otherwise PostgreSQL vacuums and writes the filled pages during the next measurement.
  await db`vacuum analyze`
  await db`checkpoint`
}

/** How long the newest hundred attempts of a webhook take to read; the median of many webhooks. */
export async function firstPageMs({ db }: World): Promise<number> {
  const lanes = await db<{ org_id: OrgId; id: string }[]>`select org_id, id from keyhook.lanes order by id limit 64`
  const times: number[] = []
  for (const lane of lanes) {
    const begun = performance.now()
    await listAttempts(db, lane.org_id, Number(lane.id), { before: null, limit: 100 })
    times.push(performance.now() - begun)
  }
  return median(times)
}

/** Attempts of the past weeks, with all their indexes. */
export async function fillAttempts(db: Database, count: number): Promise<void> {
  await ensurePartitions(db, Date.now())
  const begun = performance.now()
  const step = 500_000
  for (let start = 0; start < count; start += step) {
    await db`
      insert into keyhook.attempts (org_id, lane_id, id, event_seq, attempt, status, started_at, duration_us, address,
        request_headers, response_status, response_headers, response_body, response_complete)
      select 'org_bench', 1000000 + n % 1000,
        (lpad(to_hex((extract(epoch from now()) * 1000)::bigint - 3600000 + n / 10), 12, '0') || '7' || lpad(to_hex(n % 4096), 3, '0')
          || '8' || lpad(to_hex(n), 15, '0'))::uuid,
        n, 1, 'succeeded', now(), 5000, '127.0.0.1', '{"Content-Type":"application/json"}', 200, '{"content-length":"2"}', 'ok', true
      from generate_series(${start}::bigint, ${Math.min(count, start + step) - 1}::bigint) n`
  }
  await db`vacuum analyze keyhook.attempts`
  console.log(`stored ${count.toLocaleString('en')} attempts in ${Math.round((performance.now() - begun) / 1_000)} s`)
}
