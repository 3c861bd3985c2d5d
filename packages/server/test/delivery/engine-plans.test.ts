import { expect, onTestFinished, test } from 'vitest'
import { connect, type Database } from '../../src/db/database.ts'
import { publishEvents } from '../../src/delivery/publish.ts'
import { ensurePartitions } from '../../src/delivery/retention-sql.ts'
import { fetchDue } from '../../src/delivery/statements/fetch.ts'
import { isLaneHeld, releaseLanes, renewLanes } from '../../src/delivery/statements/held-lanes.ts'
import { interruptAttempts } from '../../src/delivery/statements/settle.ts'
import { newId, uuid7 } from '../../src/lib/ids.ts'
import { deliveryTest } from './support/delivery-test.ts'
import { begin, firstAttempt, lease, settleFailed, wake } from './support/leased-lane.ts'

const tables = ['webhooks', 'event_counters', 'events', 'deliveries', 'wakes', 'lanes', 'in_flight', 'retries']

type World = Awaited<ReturnType<typeof deliveryTest>>
/** Runs one statement; tests wrap it to count what the statement reads. */
type Run = <T>(statement: string, work: () => Promise<T>) => Promise<T>

/** One delivery that fails, is interrupted once and finished then, by every statement of the engine. */
async function deliverOnce({ orgId }: World, db: Database, run: Run): Promise<void> {
  const event = { id: newId('evt'), type: 'database.created', body: '{}' } as const
  await run('publish', () => publishEvents(db, orgId, [event]))
  await run('wake', () => wake(db))
  const take = async () => (await run('lease', () => lease(db)))[0]!
  let lane = await take()
  expect(await run('interrupt', () => interruptAttempts(db, [lane]))).toEqual([lane.laneId])
  const fetch = async () => {
    const request = {
      laneId: lane.laneId,
      orgId,
      afterSeq: lane.cursorSeq,
      firstsMax: 10,
      retriesMax: 10,
      suspended: false,
    }
    const due = await run('fetch', () => fetchDue(db, [request]))
    expect(due).toHaveLength(1)
    const { eventSeq, attempts, tries } = due[0]!
    return { ...firstAttempt(lane, eventSeq), attempt: attempts + 1, tries }
  }
  const start = async () => {
    const attempt = await fetch()
    expect((await run('begin', () => begin(db, attempt))).begun.size).toBe(1)
    return attempt
  }
  const first = await start()
  expect(await run('settle', () => settleFailed(db, first))).toBe(1)
  lane = { ...lane, cursorSeq: first.eventSeq }
  await start()
  expect(await run('renew', () => renewLanes(db, [lane], 60_000))).toHaveLength(1)
  expect(await run('isHeld', () => isLaneHeld(db, lane))).toBe(true)
  expect(await run('release', () => releaseLanes(db, [{ ...lane, abandon: true }]))).toHaveLength(1)
  lane = await take()
  await run('interrupt', () => interruptAttempts(db, [lane]))
  const last = await start()
  expect(await run('settle', () => settleFailed(db, last, null))).toBe(1)
  expect(await run('release', () => releaseLanes(db, [{ ...lane, abandon: false }]))).toHaveLength(1)
}

/** A long history of the organization and its lane, and many other lanes with work that is not due. */
async function fill({ db, orgId, owner }: World): Promise<void> {
  const [lane] = await db<{ id: string }[]>`select id from keyhook.lanes`
  const [counter] = await db<{ last: string }[]>`select coalesce(max(last_seq), 0) as last from keyhook.event_counters`
  const last = Number(counter!.last)
  await db`
    insert into keyhook.events (org_id, seq, sequence, id, type, body)
    select ${orgId}, ${last} + n, ${last} + n, 'e-' || n, 'database.created', '{}' from generate_series(1, 3000) n`
  await db`
    insert into keyhook.event_counters values (${orgId}, ${last + 3_000}, ${last + 3_000})
    on conflict (org_id) do update set last_seq = excluded.last_seq, last_sequence = excluded.last_sequence`
  await db`
    insert into keyhook.deliveries (org_id, event_seq, lane_id, sequence)
    select ${orgId}, ${last} + n, ${lane!.id}, ${last} + n from generate_series(1, 3000) n`
  await db`update keyhook.lanes set cursor_seq = ${last + 3_000}, head_seq = ${last + 3_000}`
  await db`
    with webhook as (
      insert into keyhook.webhooks (org_id, id, url, event_types, secret_key_id, secret_box, created_by)
      select ${orgId}, 'wh_' || lpad(n::text, 26, '0'), 'https://example.com', '{invoice.paid}', 'k', '\\x00', ${owner.userId}
      from generate_series(1, 3000) n
      returning lane_id, id
    )
    insert into keyhook.lanes (id, org_id, webhook_id, due_at)
    select lane_id, ${orgId}, id, now() + interval '1 day' from webhook`
  await db`
    insert into keyhook.retries (lane_id, event_seq, org_id, due_at, attempt, try)
    select id, 1, ${orgId}, now() + interval '1 day', 1, 1 from keyhook.lanes where id <> ${lane!.id}`
  const ids = Array.from({ length: 3_000 }, () => uuid7(Date.now()))
  await db`
    insert into keyhook.in_flight (lane_id, event_seq, org_id, id, lease_token, attempt, try, started_at)
    select l.id, 2, ${orgId}, i.id, 1, 1, 0, now()
    from unnest(${ids}::uuid[]) with ordinality as i (id, n)
    join (select id, row_number() over () as n from keyhook.lanes where id <> ${lane!.id}) l on l.n = i.n`
}

test.each(['before', 'after'])(
  'every statement of the engine uses indexes when its plan is made %s the tables are filled, without statistics',
  async (when) => {
    const world = await deliveryTest()
    await ensurePartitions(world.db, Date.now())
    for (const table of tables) await world.db.unsafe(`alter table keyhook.${table} set (autovacuum_enabled = false)`)
    await world.addWebhook('https://example.com')
    // One connection, so that its plans are kept and its counters are complete.
    const db = connect(world.target, { name: 'test', connectionsMax: 1 })
    onTestFinished(() => db.end())
    const rowsRead = async () => {
      await db`select pg_stat_force_next_flush()`
      const rows = await db<{ name: string; rows: number }[]>`
        select relname as name, (seq_tup_read + coalesce(idx_tup_fetch, 0))::int as rows
        from pg_stat_user_tables where schemaname = 'keyhook' and relname = any (${tables})`
      return new Map(rows.map((row) => [row.name, row.rows]))
    }
    const unmeasured: Run = (_statement, work) => work()
    const tooMany = new Map<string, number>()
    const measured: Run = async (statement, work) => {
      const before = await rowsRead()
      const result = await work()
      for (const [table, rows] of await rowsRead()) {
        const read = rows - before.get(table)!
        // Publishing reads the organization's webhooks, to find those that are subscribed.
        if (read > 50 && `${statement} ${table}` !== 'publish webhooks') tooMany.set(`${statement} ${table}`, read)
      }
      return result
    }
    if (when === 'after') await fill(world)
    // PostgreSQL settles on a plan after five times.
    for (let i = 0; i < 10; i++) await deliverOnce(world, db, unmeasured)
    if (when === 'before') await fill(world)
    for (let i = 0; i < 3; i++) await deliverOnce(world, db, measured)
    expect(Object.fromEntries(tooMany)).toEqual({})
  },
)
