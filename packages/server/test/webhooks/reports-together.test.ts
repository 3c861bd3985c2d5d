import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { connect, type Database } from '../../src/db/database.ts'
import { operator } from '../../src/domain/audit.ts'
import type { EventType } from '../../src/domain/event-types.ts'
import type { OrgId } from '../../src/kernel/ids.ts'
import { createReporting } from '../../src/webhooks/publishing/reporting.ts'
import { holdPublishers } from '../support/hold-publishers.ts'
import { startApi, type TestApi } from '../support/installation.ts'

let api: TestApi
let report: Report

type Event = { id?: string; data?: object; type?: EventType }
type Report = (orgId: OrgId, event?: Event, ...more: Event[]) => Promise<string[]>

const reporterOf = (db: Database): Report => {
  const reporting = createReporting({ db, waitingMax: 5, hint() {} })
  return (orgId, event = {}, ...more) =>
    reporting.report({
      actor: operator,
      events: [event, ...more].map(({ id = null, data = {}, type = 'invoice.paid' }) => ({
        orgId,
        type,
        data,
        id,
      })) as never,
      bytes: 100,
    })
}

beforeAll(async () => {
  api = await startApi()
  report = reporterOf(api.db)
})
afterAll(() => api.close())

/** Organizations that have published before, with this many webhooks each, all of them for invoices. */
async function organizations(...webhooks: number[]): Promise<OrgId[]> {
  const orgs: OrgId[] = []
  for (const count of webhooks) {
    const orgId = await api.organization()
    const { userId } = await api.person([{ orgId, role: 'owner' }])
    await api.db`
      insert into keyhook.webhooks (org_id, id, url, event_types, secret_key_id, secret_box, created_by)
      select ${orgId}, 'wh_' || ${orgId} || n, 'https://example.com', '{invoice.paid}', 'k', '\\x00', ${userId}
      from generate_series(1, ${count}::int) n`
    await report(orgId, { id: 'first' })
    orgs.push(orgId)
  }
  return orgs
}

const eventsOf = (orgId: OrgId) => api.db<{ seq: string; id: string; written: string }[]>`
  select seq, id, xmin::text as written from keyhook.events where org_id = ${orgId} order by seq`

const writtenBy = async (orgId: OrgId): Promise<string> => (await eventsOf(orgId)).at(-1)!.written

// Seen to fail with a transaction for each organization: four of them.
test('what is reported of several organizations at a time is written in one transaction, for each as if it were alone', async () => {
  const orgs = await organizations(0, 1, 2, 3)
  const said = await Promise.all([
    ...orgs.map((orgId) => report(orgId)),
    ...orgs.map((orgId) => report(orgId, { type: 'database.created' })),
    ...orgs.map((orgId) => report(orgId, { id: 'third' })),
  ])
  expect(new Set(await Promise.all(orgs.map(writtenBy))).size).toBe(1)
  for (const [n, orgId] of orgs.entries()) {
    const events = await eventsOf(orgId)
    expect(events.map(({ id, seq }) => [seq, id])).toEqual([
      ['1', 'first'],
      ['2', ...said[n]!],
      ['3', ...said[n + 4]!],
      ['4', 'third'],
    ])
    const deliveries = await api.db`
      select event_seq from keyhook.deliveries d join keyhook.webhooks w using (lane_id)
      where d.org_id = ${orgId} and w.org_id = ${orgId} order by 1`
    // Nobody is subscribed to the third.
    expect(deliveries.map((row) => row.event_seq)).toEqual(['1', '2', '4'].flatMap((seq) => Array(n).fill(seq)))
    expect(await api.db`select first_seq, last_seq from keyhook.wakes where org_id = ${orgId} order by 1`).toEqual([
      { first_seq: '1', last_seq: '1' },
      { first_seq: '2', last_seq: '4' },
    ])
    const audit = await api.db`
      select target_id from keyhook.audit_entries where org_id = ${orgId} and action = 'event.reported' order by id`
    expect(audit.map((row) => row.target_id)).toEqual(events.map(({ id }) => id))
  }
})

// Seen to fail without `skip locked`: nothing is written before the other publisher is done.
test('where somebody else is publishing, only the reports of that organization wait', async () => {
  const [one, busy, other] = await organizations(1, 1, 1)
  const letGo = await holdPublishers(api.db, busy!)
  let isWritten = false
  const waiting = Promise.all([report(busy!, { id: 'second' }), report(busy!, { id: 'third' })]).then(() => {
    isWritten = true
  })
  await Promise.all([report(one!), report(other!)])
  expect(await writtenBy(one!)).toBe(await writtenBy(other!))
  const late = [report(busy!, { id: 'fourth' }), report(one!), report(other!)]
  await late[1]
  await sleep(20)
  expect(isWritten).toBe(false)
  await letGo()
  await Promise.all([waiting, ...late])
  expect((await eventsOf(busy!)).map(({ id }) => id)).toEqual(['first', 'second', 'third', 'fourth'])
})

// Seen to fail when what waits for its turn is not looked at: "b" comes first.
test('what came first is written first, also when it could not be written with the others', async () => {
  const [one, other] = await organizations(1, 1)
  const first = [report(one!, { id: 'first' }), report(one!, { id: 'a' }), report(other!)]
  // They are on their way.
  await sleep(1)
  await Promise.all([...first, report(one!, { id: 'b' }), report(other!)])
  expect((await eventsOf(one!)).map(({ id }) => id)).toEqual(['first', 'a', 'b'])
})

// Seen to fail when large reports take another way from the beginning: they are first.
test('a large report does not overtake a small one', async () => {
  const [one, other] = await organizations(1, 1)
  const onTheirWay = [report(one!), report(other!)]
  await sleep(1)
  const large = Array.from({ length: 17 }, (_, n) => ({ id: `large-${n}` }))
  await Promise.all([...onTheirWay, report(one!, { id: 'small' }), report(one!, large[0], ...large.slice(1))])
  const ids = (await eventsOf(one!)).map(({ id }) => id)
  expect(ids.slice(2)).toEqual(['small', ...large.map(({ id }) => id)])
})

// Seen to fail without a bound for each organization: all in one transaction.
test('an organization that reports much is written by itself, and nobody waits for it', async () => {
  const [much, one, other] = await organizations(1, 1, 1)
  await Promise.all([...Array.from({ length: 100 }, () => report(much!)), report(one!), report(other!)])
  expect(await writtenBy(one!)).toBe(await writtenBy(other!))
  const byMuch = new Set((await eventsOf(much!)).map(({ written }) => written))
  expect(byMuch).not.toContain(await writtenBy(one!))
})

// Seen to fail without a bound of the waiting: the other is written when the first is let go.
test('an organization that somebody has locked holds up its own reports only', async () => {
  const [locked, other] = await organizations(1, 1)
  const letGo = Promise.withResolvers<void>()
  const held = Promise.withResolvers<void>()
  const holding = api.db.begin(async (tx) => {
    await tx`select from keyhook.organizations where id = ${locked!} for update`
    held.resolve()
    await letGo.promise
  })
  await held.promise
  let isWritten = false
  const waiting = report(locked!).then(() => {
    isWritten = true
  })
  await report(other!)
  expect(isWritten).toBe(false)
  letGo.resolve()
  await Promise.all([holding, waiting])
})

// Seen to fail without the bound in the function: all in one transaction.
test('an organization with many webhooks is written by itself, and so is what is too much in all', async () => {
  const orgs = await organizations(1, 201, 1)
  await Promise.all(orgs.map((orgId) => report(orgId)))
  const [small, large, other] = await Promise.all(orgs.map(writtenBy))
  expect(small).toBe(other)
  expect(large).not.toBe(small)
  const many = await organizations(...Array(15).fill(150))
  const few = await organizations(1, 2, 0)
  await Promise.all([...many, ...few].map((orgId) => report(orgId)))
  const by = Object.values(Object.groupBy(await Promise.all(many.map(writtenBy)), (written) => written))
  expect(by.map((together) => together!.length).sort((a, b) => b - a)).toEqual([13, 1, 1])
  // Those with few webhooks are in, however young they are.
  expect(new Set(await Promise.all(few.map(writtenBy)))).toEqual(new Set([by.find((one) => one!.length === 13)![0]]))
  for (const orgId of many) {
    expect(await api.db`select from keyhook.deliveries where org_id = ${orgId} and event_seq = 2`).toHaveLength(150)
  }
})

test('a name that is taken, a contradiction or an unknown organization are no business of others', async () => {
  const [one, other, third] = await organizations(1, 1, 1)
  const nobody = 'org_01h455vb4pex5vsknk084sn02q' as OrgId
  await report(other!, { id: 'known', data: { a: 1 } })
  const outcomes = await Promise.allSettled([
    report(one!, { id: 'known' }),
    report(other!, { id: 'new' }),
    report(other!, { id: 'known', data: { a: 2 } }),
    report(nobody),
    report(third!, { id: 'twice', data: { a: 1 } }),
    report(third!, { id: 'twice', data: { a: 2 } }),
    report(other!, { id: 'known', data: { a: 1 } }),
  ])
  expect(outcomes.map((one) => (one.status === 'fulfilled' ? one.value[0] : (one.reason.code ?? 'unknown')))).toEqual([
    'known',
    'new',
    'conflict',
    'unknown',
    'twice',
    'conflict',
    'known',
  ])
  expect((await eventsOf(other!)).map(({ id }) => id)).toEqual(['first', 'known', 'new'])
  expect(await writtenBy(one!)).toBe(await writtenBy(third!))
})

test('what cannot be stored takes no other organization with it', async () => {
  const orgs = await organizations(1, 1, 1)
  await api.db.unsafe(`alter table keyhook.events add constraint not_this check (body not like '%unheard of%')`)
  onTestFinished(async () => {
    await api.db`alter table keyhook.events drop constraint not_this`
  })
  const outcomes = await Promise.allSettled(
    orgs.map((orgId, n) => report(orgId, { data: n === 1 ? { it: 'is unheard of' } : {} })),
  )
  expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
  expect((await Promise.all(orgs.map(eventsOf))).map((events) => events.length)).toEqual([2, 1, 2])
})

test('what may be on disk, because the connection broke, is not written again', async () => {
  const [one, other] = await organizations(1, 1)
  const broken = Object.assign(new Error('read EHOSTUNREACH'), { code: 'EHOSTUNREACH', syscall: 'read' })
  let attempts = 0
  const db = ((strings: TemplateStringsArray, ...given: unknown[]) => {
    if (!strings[0]!.includes('with done')) return api.db(strings, ...(given as string[]))
    attempts += 1
    return Promise.reject(broken)
  }) as unknown as Database
  const reportInVain = reporterOf(db)
  const outcomes = await Promise.allSettled([reportInVain(one!), reportInVain(other!)])
  expect(outcomes.map((outcome) => outcome.status === 'rejected' && outcome.reason)).toEqual([broken, broken])
  expect(attempts).toBe(1)
})

test('two nodes that report of the same organizations lose nothing, write nothing twice and leave no gap', async () => {
  const orgs = await organizations(1, 2, 1, 250, 0)
  const nodes = [1, 2].map((n) => {
    const db = connect(api.target, { name: `node ${n}`, connectionsMax: 5 })
    onTestFinished(() => db.end())
    return reporterOf(db)
  })
  const told = new Map(orgs.map((orgId) => [orgId, new Set(['first'])]))
  const client = async (n: number) => {
    for (let i = 0; i < 30; i++) {
      const orgId = orgs[(n * 7 + i * 3) % orgs.length]!
      // Every third is named, and told to both nodes by several clients.
      const id = i % 3 === 0 ? { id: `name-${(i + n) % 40}` } : {}
      for (const said of await nodes[n % 2]!(orgId, id)) told.get(orgId)!.add(said)
    }
  }
  await Promise.all(Array.from({ length: 16 }, (_, n) => client(n)))
  for (const orgId of orgs) {
    const events = await eventsOf(orgId)
    expect(new Set(events.map(({ id }) => id))).toEqual(told.get(orgId))
    expect(events.map(({ seq }) => Number(seq))).toEqual(events.map((_, n) => n + 1))
    const wakes = await api.db<{ first_seq: string; last_seq: string }[]>`
      select first_seq, last_seq from keyhook.wakes where org_id = ${orgId} order by first_seq`
    expect(wakes.flatMap((wake) => [Number(wake.first_seq), Number(wake.last_seq) + 1])).toEqual(
      wakes.flatMap((wake, n) => [n === 0 ? 1 : Number(wakes[n - 1]!.last_seq) + 1, Number(wake.last_seq) + 1]),
    )
    expect(Number(wakes.at(-1)!.last_seq)).toBe(events.length)
  }
})
