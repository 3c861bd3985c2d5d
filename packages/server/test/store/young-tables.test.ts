import { beforeEach, expect, onTestFinished, test } from 'vitest'
import { connect, type Database } from '../../src/db/database.ts'
import { mintApiKey } from '../../src/domain/api-key.ts'
import { newId, type OrgId, type UserId } from '../../src/kernel/ids.ts'
import { uuid7 } from '../../src/kernel/uuid7.ts'
import { findAccess } from '../../src/store/access.ts'
import { insertApiKey } from '../../src/store/api-keys.ts'
import { beginAttempts } from '../../src/store/delivery/beginnings.ts'
import { leaseLanes } from '../../src/store/delivery/lanes.ts'
import { ensurePartitions } from '../../src/store/delivery/partitions.ts'
import { countRecoverable, insertRecovery, stepRecovery } from '../../src/store/delivery/recoveries.ts'
import { createTransact } from '../../src/store/publishing-transaction.ts'
import { insertWebhook } from '../../src/store/webhooks.ts'
import { publish } from '../../src/webhooks/publish.ts'
import { publishBatch } from '../../src/webhooks/sql/publish.ts'
import { startApiForTest, type TestApi } from '../support/installation.ts'

/*
 * PostgreSQL knows nothing about tables that have just been filled, and keeps the plans that it made when they were empty. What
 * is asked most must be right all the same: so what counts here is how many rows it reads.
 */
let api: TestApi
let db: Database
let orgId: OrgId
let userId: UserId

beforeEach(async () => {
  api = await startApiForTest()
  // Statistics of other tables' growth must not come to the rescue.
  for (const table of ['api_keys', 'webhooks', 'events', 'event_counters', 'deliveries']) {
    await api.db.unsafe(`alter table keyhook.${table} set (autovacuum_enabled = false)`)
  }
  // One connection: what it has read is counted, and shown to itself, when it says so.
  db = connect(api.target, { name: 'test', connectionsMax: 1 })
  onTestFinished(() => db.end())
  orgId = await api.organization()
  userId = (await api.person([{ orgId, role: 'owner' }])).userId
})

async function rowsRead(table: string, work: () => Promise<unknown>): Promise<number> {
  const count = async () => {
    await db`select pg_stat_force_next_flush()`
    const [row] = await db<{ rows: string }[]>`
      select seq_tup_read + idx_tup_fetch as rows from pg_stat_user_tables where schemaname = 'keyhook' and relname = ${table}`
    return Number(row!.rows)
  }
  const before = await count()
  await work()
  return (await count()) - before
}

// Seen to fail while the keys were joined: 20 look-ups of one key read 40,000 rows.
test.each([
  ['a key', []],
  ['each of several keys', [{ kind: 'key', hash: '0'.repeat(64) } as const]],
])('%s is found by its hash alone, however many others were made since the server started', async (_, others) => {
  const { keyPrefix, hash } = mintApiKey('kh')
  const key = { id: newId('key'), name: 'x', keyPrefix, hash, createdBy: userId }
  await api.db.begin((tx) => insertApiKey(tx, orgId, key, 1_000))
  const lookUp = () => findAccess(db, [{ kind: 'key', hash }, ...others])
  for (let i = 0; i < 10; i++) await lookUp()
  await api.db`
    insert into keyhook.api_keys (org_id, id, name, key_prefix, hash, created_by, role)
    select ${orgId}, 'key_' || n, 'x', 'kh_' || lpad(n::text, 8, '0'), sha256(n::text::bytea), ${userId}, 'owner'
    from generate_series(1, 2000) n`
  const read = await rowsRead('api_keys', async () => {
    for (let i = 0; i < 20; i++) expect((await lookUp())[0]).toMatchObject({ kind: 'key', keyId: key.id })
  })
  expect(read).toBeLessThan(100)
})

// Seen to fail while they were counted: 20,000 rows.
test('a key is added without reading the keys of the organization', async () => {
  await api.db`
    insert into keyhook.api_keys (org_id, id, name, key_prefix, hash, created_by, role)
    select ${orgId}, 'key_' || n, 'x', 'kh_' || lpad(n::text, 8, '0'), sha256(n::text::bytea), ${userId}, 'owner'
    from generate_series(1, 2000) n`
  const add = () => {
    const { keyPrefix, hash } = mintApiKey('kh')
    const key = { id: newId('key'), name: 'x', keyPrefix, hash, createdBy: userId }
    return db.begin((tx) => insertApiKey(tx, orgId, key, 2_010))
  }
  const read = await rowsRead('api_keys', async () => {
    for (let i = 0; i < 10; i++) expect(await add()).toBe(true)
  })
  expect(read).toBeLessThan(100)
  expect(await add()).toBe(false)
})

// Seen to fail with an index of all webhooks that exist, by another column: 20 events read 40,000 rows.
test('an event reads the webhooks of its own organization and no others', async () => {
  const event = { orgId, type: 'database.created', data: { database_id: 'db_1', name: 'main' } } as const
  const say = () => createTransact(db, () => {})((tx) => publish(tx, event))
  const addWebhooks = (org: OrgId, first: number, last: number) => api.db`
    insert into keyhook.webhooks (org_id, id, url, event_types, secret_key_id, secret_box, created_by)
    select ${org}, 'wh_' || lpad(n::text, 26, '0'), 'https://example.com', '{database.created}', 'k', '\\x00', ${userId}
    from generate_series(${first}::int, ${last}::int) n`
  const other = await api.organization()
  await addWebhooks(orgId, 1, 2)
  await addWebhooks(other, 1, 142)
  for (let i = 0; i < 10; i++) await say()
  await addWebhooks(other, 143, 2_000)
  const read = await rowsRead('webhooks', async () => {
    for (let i = 0; i < 20; i++) await say()
  })
  expect(read).toBeLessThan(100)
})

test('whether an id is taken is one index look-up, however many events the organization has', async () => {
  const say = (id: string) =>
    publishBatch(db, { orgId, events: [{ id, type: 'invoice.paid', body: '{}' }], named: [id], entries: [] })
  for (let i = 0; i < 10; i++) await say(`name-${i}`)
  await api.db`
    insert into keyhook.events (org_id, seq, id, type, body)
    select ${orgId}, 1000 + n, 'evt_' || lpad(n::text, 26, '0'), 'invoice.paid', '{}' from generate_series(1, 2000) n`
  await api.db`update keyhook.event_counters set last_seq = 3000 where org_id = ${orgId}`
  const read = await rowsRead('events', async () => {
    for (let i = 10; i < 30; i++) expect(await say(`name-${i}`)).toEqual([])
    expect(await say('name-7')).toEqual(['name-7'])
  })
  expect(read).toBeLessThan(100)
})

async function addWebhook(): Promise<number> {
  const id = newId('wh')
  const secret = api.masterKeys.seal('whsec_x', id)
  const webhook = { id, url: 'https://example.com', eventTypes: [], secret, createdBy: userId }
  await api.db.begin((tx) => insertWebhook(tx, orgId, webhook, 10))
  const [lane] = await api.db<{ id: string }[]>`select id from keyhook.lanes where webhook_id = ${id}`
  return Number(lane!.id)
}

async function addFailures(laneId: number, first: number, last: number, hoursAgo: number): Promise<void> {
  await ensurePartitions(api.db, Date.now())
  await api.db`
    insert into keyhook.events (org_id, seq, id, type, body, created_at)
    select ${orgId}, n, 'e-' || n, 'database.created', '{}', now() - make_interval(hours => ${hoursAgo})
    from generate_series(${first}::int, ${last}::int) n`
  await api.db`
    insert into keyhook.deliveries select ${orgId}, n, ${laneId} from generate_series(${first}::int, ${last}::int) n`
  await api.db`update keyhook.lanes set head_seq = ${last}, cursor_seq = ${last} where id = ${laneId}`
  const ids = Array.from({ length: last - first + 1 }, () => uuid7(Date.now()))
  await api.db`
    insert into keyhook.attempts (org_id, lane_id, id, event_seq, attempt, status, started_at, request_headers)
    select ${orgId}, ${laneId}, i.id, ${first} + i.n - 1, 1, 'failed', now(), '{}'
    from unnest(${ids}::uuid[]) with ordinality as i (id, n)`
}

// Seen to fail while events and deliveries were joined: millions of rows, each event of the last hour with each delivery.
test('what a webhook has missed is counted by one look at each, though the webhook is newer than all statistics', async () => {
  await addFailures(await addWebhook(), 1, 20_000, 5)
  await api.db`analyze keyhook.events, keyhook.deliveries, keyhook.attempts, keyhook.lanes`
  const laneId = await addWebhook()
  await addFailures(laneId, 20_001, 22_000, 0)
  const stretch = { orgId, laneId, since: new Date(Date.now() - 3_600_000), until: new Date(Date.now() + 3_600_000) }
  const read = await rowsRead('events', async () => expect(await countRecoverable(db, stretch)).toBe(2_000))
  expect(read).toBeLessThan(10_000)
})

// Seen to fail while the last event was a filter and no bound of the index: from the sixth step on, 6,000 rows each.
test('a step of a recovery reads what the recovery is about, and not all that came later', async () => {
  const laneId = await addWebhook()
  await addFailures(laneId, 1, 50, 5)
  await addFailures(laneId, 51, 6_000, 0)
  const [since, until] = [6, 4].map((hours) => new Date(Date.now() - hours * 3_600_000)) as [Date, Date]
  const recover = async () => {
    await db.begin((tx) => insertRecovery(tx, { orgId, laneId, since, until, id: newId('rcv') }))
    expect(await db.begin((tx) => stepRecovery(tx))).toBe(true)
  }
  for (let i = 0; i < 8; i++) await recover()
  expect(await rowsRead('deliveries', recover)).toBeLessThan(500)
})

test('whether something is missing before what was announced is seen by a look at the lane’s newest, and not at all that it had', async () => {
  const id = newId('wh')
  const secret = api.masterKeys.seal('x', id)
  const webhook = { id, url: 'https://example.com', eventTypes: ['invoice.paid' as const], secret, createdBy: userId }
  await api.db.begin((tx) => insertWebhook(tx, orgId, webhook, 1))
  await api.db`update keyhook.lanes set due_at = now()`
  const [lane] = await leaseLanes(db, { owner: 'a', lanesMax: 1, leaseMs: 60_000 })
  const { laneId, token } = lane!
  let no = 0
  const begin = async (eventSeq: number) => {
    await api.db`insert into keyhook.deliveries values (${orgId}, ${eventSeq}, ${laneId})`
    no += 1
    const place = { laneId, token, eventSeq, attempt: 1, tries: 0, begunNo: no, line: null }
    const fresh = [{ ...place, attemptId: uuid7(Date.now()), startedAtMs: Date.now() }]
    const surmised = { afterSeq: eventSeq - 1, count: 1 }
    expect(await beginAttempts(db, [{ laneId, token, no, fresh, unsettled: fresh, surmised }], 60_000)).toEqual(
      new Map([[laneId, new Map()]]),
    )
  }
  for (let seq = 1; seq <= 10; seq++) await begin(seq)
  await api.db`insert into keyhook.deliveries select ${orgId}, 100 + n, ${laneId} from generate_series(1, 2000) n`
  const read = await rowsRead('deliveries', async () => {
    for (let seq = 3_000; seq < 3_020; seq++) await begin(seq)
  })
  expect(read).toBeLessThan(100)
})
