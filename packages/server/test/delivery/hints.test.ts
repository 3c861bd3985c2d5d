import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest'
import { createTransact } from '../../src/db/database.ts'
import { createHints, type Hints } from '../../src/delivery/hints.ts'
import { newId, type OrgId } from '../../src/lib/ids.ts'
import type { Installation } from '../../src/startup/open.ts'
import { createInstallation } from '../kit/installation.ts'
import { until } from '../kit/until.ts'

let installation: Installation
/** Every payload on the channel, as any session of the database can read it. */
let payloads: string[] = []

beforeAll(async () => {
  installation = await createInstallation()
  await installation.db.listen('keyhook_hints', (payload) => void payloads.push(payload))
})
afterAll(() => installation.close())
beforeEach(() => {
  payloads = []
})

type Hint = readonly OrgId[] | null

/** A process that gives hints and listens to those of others. */
async function startProcess(): Promise<{ hints: Hints; received: Hint[] }> {
  const hints = createHints({ db: installation.db, onError() {} })
  const received: Hint[] = []
  onTestFinished(hints.onHint((orgIds) => void received.push(orgIds)))
  onTestFinished(await hints.listen())
  return { hints, received }
}

const notify = (payload: string) => installation.db`select pg_notify('keyhook_hints', ${payload})`

test('a hint reaches its own process at once and only once, and other processes by notification', async () => {
  const [here, there] = [await startProcess(), await startProcess()]
  const orgId = newId('org')
  here.hints.give([orgId])
  expect(here.received).toEqual([[orgId]])
  await until(() => there.received.length > 0)
  expect(there.received).toEqual([[orgId]])
  // A later notification of another process: by now our own would have arrived too.
  there.hints.give(null)
  await until(() => here.received.length > 1)
  expect(here.received).toEqual([[orgId], null])
})

// Seen to fail with a notification for each hint: 100 of them.
test('hints given at the same time share a notification', async () => {
  const [here, there] = [await startProcess(), await startProcess()]
  const orgIds = Array.from({ length: 100 }, () => newId('org'))
  for (const orgId of orgIds) here.hints.give([orgId])
  await until(() => new Set(there.received.flat()).size === 100)
  expect(payloads).toHaveLength(2)
})

test('a hint about any organization, or about more than a notification can name, names none', async () => {
  const [here, there] = [await startProcess(), await startProcess()]
  here.hints.give(null)
  await until(() => there.received.length === 1)
  here.hints.give(Array.from({ length: 300 }, () => newId('org')))
  await until(() => there.received.length === 2)
  expect(there.received).toEqual([null, null])
  for (const payload of payloads) expect(payload.length).toBeLessThan(100)
})

test('a malformed or forged payload is a hint like any other, and the listener stays', async () => {
  const { received } = await startProcess()
  const orgId = newId('org')
  const forged = ['', ' ', 'work', 'x org_1', `x ${orgId},`, `x ${orgId},${orgId}'; drop`, '€'.repeat(2_000)]
  for (const payload of forged) await notify(payload)
  await notify(`x ${orgId}`)
  await until(() => received.length === forged.length + 1)
  expect(received).toEqual([...forged.map(() => null), [orgId]])
})

test('hints contain organization ids and nothing else', async () => {
  const { hints } = await startProcess()
  const orgId = newId('org')
  hints.give([orgId])
  await until(() => payloads.length > 0)
  expect(payloads).toEqual([expect.stringMatching(new RegExp(`^[0-9a-f]{16} ${orgId}$`))])
})

// Seen to fail when every hint asks for a connection: 50 statements.
test('while PostgreSQL does not answer, at most one notification is under way', async () => {
  let statements = 0
  const answer = Promise.withResolvers<never[]>()
  const db = (() => {
    statements += 1
    return answer.promise
  }) as unknown as Installation['db']
  const hints = createHints({ db, onError() {} })
  for (let i = 0; i < 50; i++) {
    hints.give([newId('org')])
    await new Promise((done) => setTimeout(done, 1))
  }
  expect(statements).toBe(1)
  answer.resolve([])
  await until(() => statements === 2)
})

test('a transaction hints once, after its commit, and not at all when it is rolled back', async () => {
  const { db } = installation
  await db`create table hinted (id text)`
  const [orgId, other] = [newId('org'), newId('org')]
  const hinted: { orgIds: Hint; committed: Promise<number> }[] = []
  const count = async () => (await db`select from hinted`).length
  const transact = createTransact(db, (orgIds) => void hinted.push({ orgIds, committed: count() }))
  const failing = transact(async (tx) => {
    tx.hintAfterCommit(orgId)
    throw new Error('the job failed')
  })
  await expect(failing).rejects.toThrow('the job failed')
  expect(hinted).toEqual([])
  const result = await transact(async (tx) => {
    await tx`insert into hinted values ('1')`
    for (const id of [orgId, other, orgId]) tx.hintAfterCommit(id)
    return 'done'
  })
  expect(result).toBe('done')
  expect(hinted.map((one) => one.orgIds)).toEqual([[orgId, other]])
  expect(await hinted[0]!.committed).toBe(1)
  await transact(async (tx) => void (await tx`select 1`))
  expect(hinted).toHaveLength(1)
})
