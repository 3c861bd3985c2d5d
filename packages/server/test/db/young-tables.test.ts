import { beforeEach, expect, onTestFinished, test } from 'vitest'
import { findAccess } from '../../src/access/access.ts'
import { connect, type Database } from '../../src/db/database.ts'
import { findPositions, listEvents, readEventsAfter } from '../../src/delivery/event-log-sql.ts'
import { type IntakeBatch, publishBatch, publishWhereFree } from '../../src/delivery/publish.ts'
import { countRecoverable, insertRecovery, stepRecovery } from '../../src/delivery/redelivery-sql.ts'
import { ensurePartitions } from '../../src/delivery/retention-sql.ts'
import { insertApiKey, revokeWithDescendants } from '../../src/keys/sql.ts'
import { type KeyId, newId, type OrgId, type UserId, uuid7 } from '../../src/lib/ids.ts'
import { mintApiKey } from '../../src/lib/secrets.ts'
import { insertWebhook } from '../../src/webhooks/sql.ts'
import { startApiForTest, type TestApi } from '../kit/installation.ts'

/*
 * PostgreSQL has no statistics about tables that were filled just now, and keeps the plans that it made when they were empty. These
 * tests count the rows that frequent statements read in that state. The delivery engine's statements: engine-plans.test.ts.
 */
let api: TestApi
let db: Database
let orgId: OrgId
let userId: UserId

beforeEach(async () => {
  api = await startApiForTest()
  // Autovacuum would collect statistics in the middle of a test.
  for (const table of ['api_keys', 'webhooks', 'events', 'event_counters', 'deliveries', 'lanes', 'retries']) {
    await api.db.unsafe(`alter table keyhook.${table} set (autovacuum_enabled = false)`)
  }
  // One connection, so that its plans are kept and its counters are complete.
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

// Fails with a join over the keys: 20 look-ups of one key read 40,000 rows.
test.each([
  ['a key', []],
  ['each of several keys', [{ kind: 'key', hash: '0'.repeat(64) } as const]],
])('%s is found by its hash alone, however many others were added', async (_, others) => {
  const { keyPrefix, hash } = mintApiKey('kh')
  const key = { id: newId('key'), name: 'x', keyPrefix, hash, createdBy: userId, createdByKey: null }
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

// Fails without `limit 1`: PostgreSQL then expects hundreds of keys for a hash, and reads all organizations for each batch.
test('a look-up of a key reads one organization, however many there are', async () => {
  const { keyPrefix, hash } = mintApiKey('kh')
  const key = { id: newId('key'), name: 'x', keyPrefix, hash, createdBy: userId, createdByKey: null }
  await api.db.begin((tx) => insertApiKey(tx, orgId, key, 1_000))
  await api.db`insert into keyhook.organizations (id, name) select 'org_' || n, 'x' from generate_series(1, 5000) n`
  await api.db`
    insert into keyhook.memberships (org_id, user_id, role)
    select id, ${userId}, 'owner' from keyhook.organizations where id <> ${orgId}`
  await api.db`
    insert into keyhook.api_keys (org_id, id, name, key_prefix, hash, created_by, role)
    select 'org_' || n % 5000 + 1, 'key_' || n, 'x', 'kh_' || lpad(n::text, 8, '0'), sha256(n::text::bytea), ${userId}, 'owner'
    from generate_series(1, 100000) n`
  await api.db.unsafe('vacuum analyze keyhook.organizations, keyhook.api_keys')
  const read = await rowsRead('organizations', async () => {
    for (let i = 0; i < 10; i++) expect(await findAccess(db, [{ kind: 'key', hash }])).toHaveLength(1)
  })
  expect(read).toBeLessThan(100)
})

test('the limit of keys is checked by reading no more keys than the limit', async () => {
  await api.db`
    insert into keyhook.api_keys (org_id, id, name, key_prefix, hash, created_by, role)
    select ${orgId}, 'key_' || n, 'x', 'kh_' || lpad(n::text, 8, '0'), sha256(n::text::bytea), ${userId}, 'owner'
    from generate_series(1, 2000) n`
  const { keyPrefix, hash } = mintApiKey('kh')
  const key = { id: newId('key'), name: 'x', keyPrefix, hash, createdBy: userId, createdByKey: null }
  const add = (keysMax: number) => db.begin((tx) => insertApiKey(tx, orgId, key, keysMax))
  const read = await rowsRead('api_keys', async () => expect(await add(100)).toBeNull())
  expect(read).toBeLessThan(150)
  expect(await add(2_001)).toEqual({ role: 'owner' })
})

// Fails with a join over the keys: 20 descendants read 40,000 rows.
test('revoking a key with its descendants does not read all keys for each of them', async () => {
  const add = async (createdByKey: KeyId | null) => {
    const { keyPrefix, hash } = mintApiKey('kh')
    const key = { id: newId('key'), name: 'x', keyPrefix, hash, createdBy: userId, createdByKey }
    await db.begin((tx) => insertApiKey(tx, orgId, key, 10_000))
    return key.id
  }
  const revoke = (id: KeyId) => db.begin((tx) => revokeWithDescendants(tx, orgId, id, null))
  const root = await add(null)
  const ids = [root]
  for (let i = 0; i < 20; i++) ids.push(await add(ids.at(-1)!))
  for (let i = 0; i < 10; i++) await revoke(await add(null))
  await api.db`
    insert into keyhook.api_keys (org_id, id, name, key_prefix, hash, created_by, role)
    select ${orgId}, 'key_' || n, 'x', 'kh_' || lpad(n::text, 8, '0'), sha256(n::text::bytea), ${userId}, 'owner'
    from generate_series(1, 2000) n`
  const read = await rowsRead('api_keys', async () => expect((await revoke(root))?.map(({ id }) => id)).toEqual(ids))
  const [server] = await db<{ version: number }[]>`select current_setting('server_version_num')::int as version`
  // The first key is found by an index of the organization's keys; each of the others by the index of the tree. PostgreSQL 15 reads
  // all keys of the organization twice.
  expect(read).toBeLessThan(server!.version < 160_000 ? 5_000 : 2_500)
})

const batchWith = (id: string, isNamed = false): IntakeBatch => ({
  events: [{ orgId, id, isNamed, type: 'invoice.paid', body: '{}' }],
  entries: [],
})
const publish = () => publishBatch(db, batchWith(newId('evt')))

// Fails with an index over all existing webhooks by another column: 20 events read 40,000 rows.
test.each([
  ['waiting', publish],
  ['without waiting', () => publishWhereFree(db, batchWith(newId('evt')))],
])('publishing, %s for other publishers, reads the webhooks of its own organization only', async (_, publishOnce) => {
  const addWebhooks = (org: OrgId, first: number, last: number) => api.db`
    insert into keyhook.webhooks (org_id, id, url, event_types, secret_key_id, secret_box, created_by)
    select ${org}, 'wh_' || lpad(n::text, 26, '0'), 'https://example.com', '{invoice.paid}', 'k', '\\x00', ${userId}
    from generate_series(${first}::int, ${last}::int) n`
  const other = await api.organization()
  await addWebhooks(orgId, 1, 2)
  await addWebhooks(other, 1, 142)
  await publish()
  for (let i = 0; i < 10; i++) await publishOnce()
  await addWebhooks(other, 143, 2_000)
  const read = await rowsRead('webhooks', async () => {
    for (let i = 0; i < 20; i++) await publishOnce()
  })
  expect(read).toBeGreaterThanOrEqual(40)
  expect(read).toBeLessThan(100)
})

test('whether an event id exists is found without reading the events of the organization', async () => {
  const say = async (id: string) => (await publishBatch(db, batchWith(id, true))).map((event) => event.id)
  for (let i = 0; i < 10; i++) await say(`name-${i}`)
  await api.db`
    insert into keyhook.events (org_id, seq, sequence, id, type, body)
    select ${orgId}, 1000 + n, 1000 + n, 'evt_' || lpad(n::text, 26, '0'), 'invoice.paid', '{}' from generate_series(1, 2000) n`
  await api.db`update keyhook.event_counters set last_seq = 3000, last_sequence = 3000 where org_id = ${orgId}`
  const read = await rowsRead('events', async () => {
    for (let i = 10; i < 30; i++) expect(await say(`name-${i}`)).toEqual([])
    expect(await say('name-7')).toEqual(['name-7'])
  })
  expect(read).toBeLessThan(100)
})

// Without the index on the public number: 48,000 rows.
test('the list and the stream of events read no more than a page of a long history', async () => {
  const filter = { after: 0, before: 1e15, since: null, until: null, types: null, databases: null } as const
  const reads = [
    () => listEvents(db, orgId, { ...filter, order: 'desc' }, 2),
    () => listEvents(db, orgId, { ...filter, after: 1_500, order: 'asc' }, 2),
    () => listEvents(db, orgId, { ...filter, before: 1_500, order: 'desc' }, 2),
    () => readEventsAfter(db, orgId, 2_999),
    () => findPositions(db, orgId),
  ]
  await publish()
  for (let i = 0; i < 10; i++) for (const read of reads) await read()
  await api.db`
    insert into keyhook.events (org_id, seq, sequence, id, type, body)
    select ${orgId}, n, n, 'evt_' || lpad(n::text, 26, '0'), 'invoice.paid', '{}' from generate_series(2, 3000) n`
  const read = await rowsRead('events', async () => {
    for (let i = 0; i < 4; i++) for (const one of reads) await one()
  })
  expect(read).toBeGreaterThan(0)
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
    insert into keyhook.events (org_id, seq, sequence, id, type, body, created_at)
    select ${orgId}, n, n, 'e-' || n, 'database.created', '{}', now() - make_interval(hours => ${hoursAgo})
    from generate_series(${first}::int, ${last}::int) n`
  await api.db`
    insert into keyhook.deliveries (org_id, event_seq, lane_id) select ${orgId}, n, ${laneId} from generate_series(${first}::int, ${last}::int) n`
  await api.db`update keyhook.lanes set head_seq = ${last}, cursor_seq = ${last} where id = ${laneId}`
  const ids = Array.from({ length: last - first + 1 }, () => uuid7(Date.now()))
  await api.db`
    insert into keyhook.attempts (org_id, lane_id, id, event_seq, attempt, status, started_at, request_headers)
    select ${orgId}, ${laneId}, i.id, ${first} + i.n - 1, 1, 'failed', now(), '{}'
    from unnest(${ids}::uuid[]) with ordinality as i (id, n)`
}

// Fails with a join of events and deliveries: millions of rows, each event of the last hour with each delivery.
test('missed deliveries are counted by one look-up each, even for a webhook newer than the statistics', async () => {
  await addFailures(await addWebhook(), 1, 20_000, 5)
  await api.db`analyze keyhook.events, keyhook.deliveries, keyhook.attempts, keyhook.lanes`
  const laneId = await addWebhook()
  await addFailures(laneId, 20_001, 22_000, 0)
  const range = { orgId, laneId, since: new Date(Date.now() - 3_600_000), until: new Date(Date.now() + 3_600_000) }
  const read = await rowsRead('events', async () => expect(await countRecoverable(db, range)).toBe(2_000))
  expect(read).toBeLessThan(10_000)
})

// Fails when the last event is a filter and not an index condition: from the sixth step on, 6,000 rows each.
test('a step of a recovery reads its own time range, and no later deliveries', async () => {
  const laneId = await addWebhook()
  await addFailures(laneId, 1, 50, 5)
  await addFailures(laneId, 51, 6_000, 0)
  const [since, until] = [6, 4].map((hours) => new Date(Date.now() - hours * 3_600_000)) as [Date, Date]
  const recover = async () => {
    await db.begin((tx) => insertRecovery(tx, { orgId, laneId, since, until, id: newId('rcv') }))
    expect(await db.begin((tx) => stepRecovery(tx))).toBe(orgId)
  }
  for (let i = 0; i < 8; i++) await recover()
  expect(await rowsRead('deliveries', recover)).toBeLessThan(500)
})
