import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { operator } from '../../src/domain/audit.ts'
import type { ReportedEvent } from '../../src/domain/events.ts'
import type { OrgId } from '../../src/kernel/ids.ts'
import { UnknownOrganization } from '../../src/store/delivery/events.ts'
import { createReporting } from '../../src/webhooks/publishing/reporting.ts'
import { holdPublishers } from '../support/hold-publishers.ts'
import { startApi, type TestApi } from '../support/installation.ts'
import { until } from './support/delivery-test.ts'

let api: TestApi
let hints = 0
let report: (orgId: OrgId, ...events: Partial<ReportedEvent>[]) => Promise<string[]>

beforeAll(async () => {
  api = await startApi()
  const reporting = createReporting({ db: api.db, waitingMax: 5, hint: () => void hints++ })
  const actor = { kind: 'operator', tokenId: 'tok_1', address: '192.0.2.1' } as const
  report = (orgId, ...events) =>
    reporting.report({
      actor,
      events: events.map((one) => ({ orgId, type: 'invoice.paid', data: {}, id: null, ...one })),
      bytes: 100,
    })
})
afterAll(() => api.close())

const eventsOf = (orgId: OrgId) => api.db<{ seq: string; id: string; written: string; body: string }[]>`
  select seq, id, body, xmin::text as written from keyhook.events where org_id = ${orgId} order by seq`

const auditOf = (orgId: OrgId) => api.db<{ target_id: string; credential: string; details: object }[]>`
  select target_id, credential, details from keyhook.audit_entries
  where org_id = ${orgId} and action = 'event.reported' order by id`

// Seen to fail with a transaction for each report: fifty of them.
test('what is reported while another is being written is written together, in the order that it came in', async () => {
  const orgId = await api.organization()
  hints = 0
  const ids = await Promise.all(Array.from({ length: 50 }, (_, n) => report(orgId, { data: { n } })))
  const events = await eventsOf(orgId)
  expect(events.map(({ id }) => [id])).toEqual(ids)
  expect(events.map(({ seq }) => Number(seq))).toEqual(Array.from({ length: 50 }, (_, n) => n + 1))
  expect(new Set(events.map(({ written }) => written)).size).toBeLessThan(5)
  expect(hints).toBeLessThan(5)
  const audit = await auditOf(orgId)
  expect(audit.map(({ target_id }) => [target_id])).toEqual(ids)
  expect(audit[0]).toMatchObject({ credential: 'tok_1', details: { events: 1 } })
})

test('groups have an end: what is too much for one follows in the next', async () => {
  const orgId = await api.organization()
  const many = () => Array.from({ length: 400 }, () => ({}))
  await Promise.all([report(orgId, ...many()), report(orgId, ...many()), report(orgId, ...many())])
  const events = await eventsOf(orgId)
  expect(events).toHaveLength(1_200)
  expect(new Set(events.map(({ written }) => written)).size).toBe(3)
})

// Seen to fail with groups of one size: the sixteen are written at once.
test('where writing takes long, less is written at once', async () => {
  const orgId = await api.organization()
  const letGo = await holdPublishers(api.db, orgId)
  const first = report(orgId, {})
  // Longer than a write may take before groups are made smaller.
  await sleep(500)
  const others = Array.from({ length: 16 }, () => report(orgId, {}))
  await letGo()
  await Promise.all([first, ...others])
  const events = await eventsOf(orgId)
  expect(new Set(events.map(({ written }) => written)).size).toBeGreaterThanOrEqual(3)
})

// Seen to fail when a conflict is thrown where the group is written: all six are refused then.
test('a report that says something else about a known event is refused whole, and alone', async () => {
  const orgId = await api.organization()
  const before = await report(orgId, { id: 'known', data: { a: 1 } })
  const outcomes = await Promise.allSettled([
    report(orgId, { id: 'one', data: {} }),
    report(orgId, { id: 'two' }, { id: 'known', data: { a: 2 } }),
    report(orgId, { id: 'known', data: { a: 1 } }),
    report(orgId, { id: 'three', data: { first: true } }),
    report(orgId, { id: 'three', data: { first: false } }),
    report(orgId, { id: 'three', data: { first: true } }, { id: 'four' }),
  ])
  expect(outcomes.map((one) => (one.status === 'fulfilled' ? one.value : one.reason.code))).toEqual([
    ['one'],
    'conflict',
    ['known'],
    ['three'],
    'conflict',
    ['three', 'four'],
  ])
  expect((await eventsOf(orgId)).map(({ id, seq }) => [seq, id])).toEqual([
    ['1', ...before],
    ['2', 'one'],
    ['3', 'three'],
    ['4', 'four'],
  ])
  // Those that changed nothing have left no trace.
  expect((await auditOf(orgId)).map(({ target_id }) => target_id)).toEqual(['known', 'one', 'three', 'four'])
})

// Seen to fail without the second attempt, one by one.
test('a report that cannot be stored takes no other with it', async () => {
  const orgId = await api.organization()
  await api.db.unsafe(`alter table keyhook.events add constraint not_this check (body not like '%unheard of%')`)
  onTestFinished(async () => {
    await api.db`alter table keyhook.events drop constraint not_this`
  })
  const outcomes = await Promise.allSettled([
    report(orgId, { id: 'one' }),
    report(orgId, { id: 'two', data: { it: 'is unheard of' } }),
    report(orgId, { id: 'three' }),
  ])
  expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
  expect((await eventsOf(orgId)).map(({ id, seq }) => [id, seq])).toEqual([
    ['one', '1'],
    ['three', '2'],
  ])
})

// Seen to fail when only what PostgreSQL refuses is tried again in parts.
test('a report that ends in a fault of ours takes no other with it', async () => {
  const orgId = await api.organization()
  const unwritable = {
    toJSON() {
      throw new RangeError('too much')
    },
  }
  const outcomes = await Promise.allSettled([
    report(orgId, { id: 'one' }),
    report(orgId, { id: 'two' }),
    report(orgId, { id: 'three', data: unwritable }),
    report(orgId, { id: 'four' }),
  ])
  expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'rejected', 'fulfilled'])
  expect((await eventsOf(orgId)).map(({ id }) => id)).toEqual(['one', 'two', 'four'])
})

test('a report that contradicts itself is refused, and leaves no trace', async () => {
  const orgId = await api.organization()
  const twice = report(orgId, { id: 'same', data: { a: 1 } }, { id: 'same', data: { a: 2 } })
  await expect(twice).rejects.toMatchObject({ code: 'conflict' })
  expect(await api.db`select 1 from keyhook.wakes where org_id = ${orgId}`).toEqual([])
  await report(orgId, { id: 'same', data: { a: 1 } })
  expect((await eventsOf(orgId)).map(({ seq }) => seq)).toEqual(['1'])
})

// Seen to fail when everything is tried again but what is known to be an outage.
test('what may be on disk, because the connection broke, is not written again', async () => {
  const orgId = await api.organization()
  let attempts = 0
  const broken = Object.assign(new Error('read EHOSTUNREACH'), { code: 'EHOSTUNREACH', syscall: 'read' })
  const db = ((strings: TemplateStringsArray, ...given: unknown[]) => {
    if (!strings[0]!.includes('with done')) return api.db(strings, ...(given as string[]))
    attempts += 1
    return Promise.reject(broken)
  }) as unknown as Database
  const reporting = createReporting({ db, waitingMax: 5, hint() {} })
  const event = { orgId, type: 'invoice.paid', data: {}, id: null } as const
  const one = { actor: operator, events: [event], bytes: 2 }
  const outcomes = await Promise.allSettled([reporting.report(one), reporting.report(one), reporting.report(one)])
  expect(outcomes.map((outcome) => outcome.status === 'rejected' && outcome.reason)).toEqual([broken, broken, broken])
  expect(attempts).toBe(1)
})

// Seen to fail when what is tried without a place has left the queue before it is written: none is ever answered.
test('what has no place to wait in is refused alone as well, and is written once and in order', async () => {
  const [held, later] = [await api.organization(), await api.organization()]
  await report(later, { id: 'known', data: { a: 1 } })
  await api.db.unsafe(`alter table keyhook.events add constraint not_this check (body not like '%unheard of%')`)
  onTestFinished(async () => {
    await api.db`alter table keyhook.events drop constraint not_this`
  })
  const reporting = createReporting({ db: api.db, waitingMax: 1, hint() {} })
  const say = (orgId: OrgId, one: Partial<ReportedEvent>) =>
    reporting.report({
      actor: operator,
      events: [{ orgId, type: 'invoice.paid', data: {}, id: null, ...one }],
      bytes: 100,
    })
  const letGo = [await holdPublishers(api.db, held), await holdPublishers(api.db, later)]
  const waiting = Promise.allSettled([say(held, {})])
  // It has the place before the others come.
  await sleep(100)
  const reports = Promise.allSettled([
    say(later, { id: 'one' }),
    say(later, { id: 'two', data: { it: 'is unheard of' } }),
    say(later, { id: 'known', data: { a: 2 } }),
    say(later, { id: 'three' }),
    say(later, { id: 'known', data: { a: 1 } }),
  ])
  // They have been tried in vain.
  await sleep(200)
  await letGo[1]!()
  expect((await reports).map((one) => (one.status === 'fulfilled' ? one.value : one.reason.code))).toEqual([
    ['one'],
    '23514',
    'conflict',
    ['three'],
    ['known'],
  ])
  expect((await eventsOf(later)).map(({ seq, id }) => [seq, id])).toEqual([
    ['1', 'known'],
    ['2', 'one'],
    ['3', 'three'],
  ])
  expect(await eventsOf(held)).toEqual([])
  await letGo[0]!()
  await waiting
})

// Seen to fail with one queue for all organizations.
test('organizations do not wait for each other', async () => {
  const [slow, quick] = [await api.organization(), await api.organization()]
  const letGo = await holdPublishers(api.db, slow)
  let isWritten = false
  const waiting = report(slow, {}).then(() => {
    isWritten = true
  })
  await report(quick, {})
  await report(quick, {})
  expect(isWritten).toBe(false)
  await letGo()
  await waiting
})

test('what is reported while others wait for the disk comes right behind them', async () => {
  const orgId = await api.organization()
  const letGo = await holdPublishers(api.db, orgId)
  const first = report(orgId, { id: 'first' })
  await until(
    async () =>
      (
        await api.db`
          select pid from pg_stat_activity
          where datname = current_database() and cardinality(pg_blocking_pids(pid)) > 0`
      ).length > 0,
    'the first to wait',
  )
  const others = [report(orgId, { id: 'second' }), report(orgId, { id: 'third' })]
  await letGo()
  await Promise.all([first, ...others])
  const events = await eventsOf(orgId)
  expect(events.map(({ id }) => id)).toEqual(['first', 'second', 'third'])
  expect(events[1]!.written).toBe(events[2]!.written)
  expect(events[0]!.written).not.toBe(events[1]!.written)
})

test('an organization that does not exist is said to be unknown, to all who report of it', async () => {
  const nobody = 'org_01h455vb4pex5vsknk084sn02q' as OrgId
  const outcomes = await Promise.allSettled([report(nobody, {}), report(nobody, { id: 'x' })])
  for (const one of outcomes) expect(one).toMatchObject({ status: 'rejected', reason: expect.any(UnknownOrganization) })
})

test('a report of several organizations is all or none', async () => {
  const [one, other] = [await api.organization(), await api.organization()]
  await report(other, { id: 'taken', data: { a: 1 } })
  await expect(report(one, { id: 'new' }, { orgId: other, id: 'taken', data: { a: 2 } })).rejects.toMatchObject({
    code: 'conflict',
  })
  expect(await eventsOf(one)).toEqual([])
  expect(await report(one, { id: 'new' }, { orgId: other, id: 'newer' }, { id: 'newest' })).toEqual([
    'new',
    'newer',
    'newest',
  ])
})
