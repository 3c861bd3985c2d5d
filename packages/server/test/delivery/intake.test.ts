import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { connect, type Database } from '../../src/db/database.ts'
import { UnknownOrganization } from '../../src/delivery/event-log-sql.ts'
import type { IntakeEvent } from '../../src/delivery/events.ts'
import { createIntake } from '../../src/delivery/intake.ts'
import type { OrgId } from '../../src/lib/ids.ts'
import { holdPublishers } from '../kit/hold-publishers.ts'
import { startApi, type TestApi } from '../kit/installation.ts'
import { until } from '../kit/until.ts'

type Accept = (orgId: OrgId, ...events: Partial<IntakeEvent>[]) => Promise<string[]>

let api: TestApi
let accept: Accept
let hinted: OrgId[][] = []

beforeAll(async () => {
  api = await startApi()
  accept = acceptOn(api.db)
})
afterAll(() => api.close())

function acceptOn(db: Database): Accept {
  const intake = createIntake({ db, hint: (orgIds) => void hinted.push([...orgIds]) })
  const actor = { kind: 'operator', tokenId: 'tok_1', address: '192.0.2.1' } as const
  return (orgId, ...events) =>
    intake.accept({
      actor,
      events: events.map((one) => ({ orgId, type: 'invoice.paid', data: {}, id: null, ...one })),
    })
}

/** `written`: the transaction that wrote the event. */
const eventsOf = (orgId: OrgId) => api.db<{ seq: string; id: string; written: string }[]>`
  select seq, id, xmin::text as written from keyhook.events where org_id = ${orgId} order by seq`

const commitsOf = async (orgId: OrgId): Promise<number> =>
  new Set((await eventsOf(orgId)).map(({ written }) => written)).size

const auditOf = (orgId: OrgId) => api.db<{ target_id: string; credential: string; details: object }[]>`
  select target_id, credential, details from keyhook.audit_entries
  where org_id = ${orgId} and action = 'event.reported' order by id`

/** While a test runs, PostgreSQL rejects events whose body contains the text. */
async function rejectBodies(text: string): Promise<void> {
  await api.db.unsafe(`alter table keyhook.events add constraint not_this check (body not like '%${text}%')`)
  onTestFinished(async () => void (await api.db`alter table keyhook.events drop constraint not_this`))
}

// Seen to fail with a transaction for each request: fifty of them.
test('requests that arrive while a batch commits become the next batch, in the order of their arrival', async () => {
  const orgId = await api.organization()
  hinted = []
  const ids = await Promise.all(Array.from({ length: 50 }, (_, n) => accept(orgId, { data: { n } })))
  const events = await eventsOf(orgId)
  expect(events.map(({ id }) => [id])).toEqual(ids)
  expect(events.map(({ seq }) => Number(seq))).toEqual(Array.from({ length: 50 }, (_, n) => n + 1))
  expect(await commitsOf(orgId)).toBeLessThan(5)
  const audit = await auditOf(orgId)
  expect(audit.map(({ target_id }) => [target_id])).toEqual(ids)
  expect(audit[0]).toMatchObject({ credential: 'tok_1', details: { events: 1 } })
  expect(new Set(hinted.flat())).toEqual(new Set([orgId]))
  expect(hinted.length).toBeLessThan(5)
})

/** Organizations that have published before, each with one webhook. */
async function organizations(count: number): Promise<OrgId[]> {
  const orgs: OrgId[] = []
  for (let i = 0; i < count; i++) orgs.push(await api.organization())
  await api.db`insert into keyhook.event_counters (org_id) select unnest(${orgs}::text[])`
  return orgs
}

const addWebhooks = async (orgId: OrgId, count: number) => {
  const { userId } = await api.person([{ orgId, role: 'owner' }])
  await api.db`
    insert into keyhook.webhooks (org_id, id, url, event_types, secret_key_id, secret_box, created_by)
    select ${orgId}, 'wh_' || n, 'https://example.com', '{invoice.paid}', 'k', '\\x00', ${userId}
    from generate_series(1, ${count}::int) n`
}

const transactionsOf = async (orgs: readonly OrgId[]): Promise<Set<string>> =>
  new Set((await Promise.all(orgs.map(eventsOf))).flat().map(({ written }) => written))

// Seen to fail with a batch for each organization: 64 commits.
test('requests of many organizations share a commit', async () => {
  const orgs = await organizations(64)
  hinted = []
  await Promise.all(orgs.map((orgId) => accept(orgId, {})))
  expect((await transactionsOf(orgs)).size).toBeLessThan(5)
  expect(hinted.length).toBeLessThan(5)
  expect(new Set(hinted.flat())).toEqual(new Set(orgs))
  expect((await Promise.all(orgs.map(auditOf))).map((entries) => entries.length)).toEqual(orgs.map(() => 1))
})

// Seen to fail without the limit in publish_where_free: all in one transaction.
test('an organization with many webhooks, or with many events, is written by itself', async () => {
  const orgs = await organizations(4)
  const [small, , manyWebhooks, manyEvents] = orgs as [OrgId, OrgId, OrgId, OrgId]
  await addWebhooks(small, 1)
  await addWebhooks(manyWebhooks, 101)
  await Promise.all(orgs.map((orgId) => accept(orgId, ...Array(orgId === manyEvents ? 17 : 1).fill({}))))
  expect(await transactionsOf(orgs.slice(0, 2))).toHaveLength(1)
  expect((await transactionsOf(orgs)).size).toBe(3)
  const deliveries = await api.db`select from keyhook.deliveries where org_id = ${manyWebhooks}`
  expect(deliveries.count).toBe(101)
})

// Seen to fail when each organization has a statement: requests that wait for the locks of others are refused after three seconds.
test('requests for the same hundreds of organizations are all accepted, in one statement each', async () => {
  const orgs = await organizations(300)
  const send = () => accept(orgs[0]!, ...orgs.map((orgId) => ({ orgId })))
  await Promise.all(Array.from({ length: 12 }, send))
  expect((await transactionsOf(orgs)).size).toBe(12)
  const [row] = await api.db`
    select count(*)::int as events, max(seq)::int as last from keyhook.events where org_id = any (${orgs})`
  expect(row).toEqual({ events: 3_600, last: 12 })
})

test('each batch has one wake and one delivery per event and subscribed webhook', async () => {
  const orgId = await api.organization()
  await addWebhooks(orgId, 3)
  await Promise.all([accept(orgId, {}, {}), accept(orgId, { type: 'database.created' })])
  expect(await api.db`select first_seq, last_seq from keyhook.wakes where org_id = ${orgId}`).toEqual([
    { first_seq: '1', last_seq: '3' },
  ])
  const deliveries = await api.db`select event_seq from keyhook.deliveries where org_id = ${orgId} order by 1`
  expect(deliveries.map((row) => row.event_seq)).toEqual(['1', '1', '1', '2', '2', '2'])
})

test.each([
  ['1,000 events', 400, {}],
  ['1 MB', 8, { text: 'x'.repeat(60_000) }],
])('a batch has at most %s', async (_, count, data) => {
  const orgId = await api.organization()
  const many = () => Array.from({ length: count }, () => ({ data }))
  await Promise.all([accept(orgId, ...many()), accept(orgId, ...many()), accept(orgId, ...many())])
  expect(await eventsOf(orgId)).toHaveLength(3 * count)
  expect(await commitsOf(orgId)).toBe(2)
})

// Seen to fail when a conflict is thrown where the batch is written: all six are refused then.
test('a request with other content for a known id is refused as a whole, and only that request', async () => {
  const orgId = await api.organization()
  await accept(orgId, { id: 'known', data: { a: 1 } })
  const outcomes = await Promise.allSettled([
    accept(orgId, { id: 'one' }),
    accept(orgId, { id: 'two' }, { id: 'known', data: { a: 2 } }),
    accept(orgId, { id: 'known', data: { a: 1 } }),
    accept(orgId, { id: 'three', data: { first: true } }),
    accept(orgId, { id: 'three', data: { first: false } }),
    accept(orgId, { id: 'three', data: { first: true } }, { id: 'four' }),
  ])
  expect(outcomes.map((one) => (one.status === 'fulfilled' ? one.value : one.reason.code))).toEqual([
    ['one'],
    'events.id_taken',
    ['known'],
    ['three'],
    'events.id_taken',
    ['three', 'four'],
  ])
  expect((await eventsOf(orgId)).map(({ id, seq }) => [seq, id])).toEqual([
    ['1', 'known'],
    ['2', 'one'],
    ['3', 'three'],
    ['4', 'four'],
  ])
  // Requests that added nothing have no audit entry.
  expect((await auditOf(orgId)).map(({ target_id }) => target_id)).toEqual(['known', 'one', 'three', 'four'])
})

// Seen to fail when a batch is not halved.
test('a request that PostgreSQL rejects fails alone', async () => {
  const orgId = await api.organization()
  await rejectBodies('rejected text')
  const outcomes = await Promise.allSettled([
    accept(orgId, { id: 'one' }),
    accept(orgId, { id: 'two', data: { it: 'is rejected text' } }),
    accept(orgId, { id: 'three' }),
    accept(orgId, { id: 'four' }),
  ])
  expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled', 'fulfilled'])
  expect((await eventsOf(orgId)).map(({ id, seq }) => [id, seq])).toEqual([
    ['one', '1'],
    ['three', '2'],
    ['four', '3'],
  ])
  expect(await auditOf(orgId)).toHaveLength(3)
})

test('a request whose events cannot be written as JSON fails alone', async () => {
  const orgId = await api.organization()
  const unwritable = {
    toJSON() {
      throw new RangeError('too much')
    },
  }
  const outcomes = await Promise.allSettled([
    accept(orgId, { id: 'one' }),
    accept(orgId, { id: 'two', data: unwritable }),
    accept(orgId, { id: 'three' }),
  ])
  expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
  expect((await eventsOf(orgId)).map(({ id }) => id)).toEqual(['one', 'three'])
})

test('a request that contradicts itself is refused and leaves nothing behind', async () => {
  const orgId = await api.organization()
  const twice = accept(orgId, { id: 'same', data: { a: 1 } }, { id: 'same', data: { a: 2 } })
  await expect(twice).rejects.toMatchObject({ code: 'events.id_taken' })
  expect(await api.db`select 1 from keyhook.wakes where org_id = ${orgId}`).toEqual([])
  await accept(orgId, { id: 'same', data: { a: 1 } })
  expect((await eventsOf(orgId)).map(({ seq }) => seq)).toEqual(['1'])
})

// Seen to fail when every error that is not a known outage is retried.
test.each([
  ['with a code', Object.assign(new Error('read EHOSTUNREACH'), { code: 'EHOSTUNREACH', syscall: 'read' })],
  ['without a code', new Error('Connection terminated unexpectedly')],
])('after a lost connection, reported %s, nothing is written again: it may be on disk', async (_, lost) => {
  const orgId = await api.organization()
  let attempts = 0
  const db = ((strings: TemplateStringsArray, ...values: unknown[]) => {
    if (!strings[0]!.includes('with published')) return api.db(strings, ...(values as never[]))
    attempts += 1
    return Promise.reject(lost)
  }) as unknown as Database
  const acceptInVain = acceptOn(db)
  const outcomes = await Promise.allSettled([acceptInVain(orgId, {}), acceptInVain(orgId, {}), acceptInVain(orgId, {})])
  expect(outcomes.map((outcome) => outcome.status === 'rejected' && outcome.reason)).toEqual([lost, lost, lost])
  expect(attempts).toBe(1)
})

// Seen to fail with one queue for all organizations.
test('organizations do not wait for each other', async () => {
  const [slow, quick] = [await api.organization(), await api.organization()]
  const release = await holdPublishers(api.db, slow)
  let isWritten = false
  const waiting = accept(slow, {}).then(() => {
    isWritten = true
  })
  await accept(quick, {})
  await accept(quick, {})
  expect(isWritten).toBe(false)
  await release()
  await waiting
})

// Seen to fail without a limit of the wait: the audit entry waits for the organization's row.
test('an organization whose row is locked delays only its own events', async () => {
  const [locked, other] = [await api.organization(), await api.organization()]
  const release = Promise.withResolvers<void>()
  const held = Promise.withResolvers<void>()
  const holding = api.db.begin(async (tx) => {
    await tx`select from keyhook.organizations where id = ${locked} for update`
    held.resolve()
    await release.promise
  })
  await held.promise
  let isWritten = false
  const waiting = accept(locked, {}).then(() => {
    isWritten = true
  })
  await accept(other, {})
  expect(isWritten).toBe(false)
  release.resolve()
  await Promise.all([holding, waiting])
})

test('a batch that waited for another publisher is written once and in order, and refused requests alone', async () => {
  const orgId = await api.organization()
  await accept(orgId, { id: 'known', data: { a: 1 } })
  await rejectBodies('rejected text')
  const release = await holdPublishers(api.db, orgId)
  const first = accept(orgId, { id: 'zero' })
  await until(async () => (await blocked()).length > 0)
  const requests = Promise.allSettled([
    accept(orgId, { id: 'one' }),
    accept(orgId, { id: 'two', data: { it: 'is rejected text' } }),
    accept(orgId, { id: 'known', data: { a: 2 } }),
    accept(orgId, { id: 'three' }),
    accept(orgId, { id: 'known', data: { a: 1 } }),
  ])
  await release()
  await first
  expect((await requests).map((one) => (one.status === 'fulfilled' ? one.value : one.reason.code))).toEqual([
    ['one'],
    '23514',
    'events.id_taken',
    ['three'],
    ['known'],
  ])
  expect((await eventsOf(orgId)).map(({ seq, id }) => [seq, id])).toEqual([
    ['1', 'known'],
    ['2', 'zero'],
    ['3', 'one'],
    ['4', 'three'],
  ])
})

const blocked = () => api.db`
  select pid from pg_stat_activity where datname = current_database() and cardinality(pg_blocking_pids(pid)) > 0`

test('an unknown organization is reported as such to every request about it', async () => {
  const unknown = 'org_01h455vb4pex5vsknk084sn02q' as OrgId
  const outcomes = await Promise.allSettled([accept(unknown, {}), accept(unknown, { id: 'x' })])
  for (const one of outcomes) expect(one).toMatchObject({ status: 'rejected', reason: expect.any(UnknownOrganization) })
})

test('a request for several organizations is accepted for all or for none', async () => {
  const [one, other] = [await api.organization(), await api.organization()]
  await accept(other, { id: 'taken', data: { a: 1 } })
  hinted = []
  const conflicting = accept(one, { id: 'new' }, { orgId: other, id: 'taken', data: { a: 2 } })
  await expect(conflicting).rejects.toMatchObject({ code: 'events.id_taken' })
  const unknown = accept(one, { id: 'new' }, { orgId: 'org_01h455vb4pex5vsknk084sn02q' })
  await expect(unknown).rejects.toBeInstanceOf(UnknownOrganization)
  expect([await eventsOf(one), await auditOf(one), hinted]).toEqual([[], [], []])
  const ids = await accept(
    one,
    { id: 'new' },
    { orgId: other, id: 'taken', data: { a: 1 } },
    { orgId: other, id: 'newer' },
    { id: 'newest' },
  )
  expect(ids).toEqual(['new', 'taken', 'newer', 'newest'])
  expect((await eventsOf(one)).map(({ id }) => id)).toEqual(['new', 'newest'])
  expect((await eventsOf(other)).map(({ id }) => id)).toEqual(['taken', 'newer'])
  expect(hinted).toEqual([[one, other]])
})

// Seen to fail when counters are locked in the order of the request: a deadlock.
test('requests that name the same organizations in different order do not block each other', async () => {
  const [one, other] = [await api.organization(), await api.organization()]
  const requests = Array.from({ length: 20 }, (_, n) =>
    n % 2 === 0 ? accept(one, {}, { orgId: other }) : accept(other, {}, { orgId: one }),
  )
  await Promise.all(requests)
  for (const orgId of [one, other]) {
    expect((await eventsOf(orgId)).map(({ seq }) => Number(seq))).toEqual(Array.from({ length: 20 }, (_, n) => n + 1))
  }
})

test('two nodes that accept events of the same organizations lose none, write none twice and leave no gap', async () => {
  const orgs: OrgId[] = []
  for (const webhooks of [1, 2, 1, 250, 0]) {
    const orgId = await api.organization()
    await addWebhooks(orgId, webhooks)
    orgs.push(orgId)
  }
  const nodes = [1, 2].map((n) => {
    const db = connect(api.target, { name: `node ${n}`, connectionsMax: 4 })
    onTestFinished(() => db.end())
    return acceptOn(db)
  })
  const accepted = new Map(orgs.map((orgId) => [orgId, new Set<string>()]))
  const client = async (n: number) => {
    for (let i = 0; i < 30; i++) {
      const orgId = orgs[(n * 7 + i * 3) % orgs.length]!
      // Every third id is chosen by the client, and sent to both nodes by several clients.
      const event = i % 3 === 0 ? { id: `name-${(i + n) % 40}` } : {}
      for (const id of await nodes[n % 2]!(orgId, event)) accepted.get(orgId)!.add(id)
    }
  }
  await Promise.all(Array.from({ length: 16 }, (_, n) => client(n)))
  for (const orgId of orgs) {
    const events = await eventsOf(orgId)
    expect(new Set(events.map(({ id }) => id))).toEqual(accepted.get(orgId))
    expect(events.map(({ seq }) => Number(seq))).toEqual(events.map((_, n) => n + 1))
    const wakes = await api.db<{ first_seq: string; last_seq: string }[]>`
      select first_seq, last_seq from keyhook.wakes where org_id = ${orgId} order by first_seq`
    // Wakes cover all events without gap or overlap.
    let next = 1
    for (const wake of wakes) {
      expect(Number(wake.first_seq)).toBe(next)
      next = Number(wake.last_seq) + 1
    }
    expect(next).toBe(events.length + 1)
  }
})
