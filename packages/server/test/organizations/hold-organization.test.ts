import { DatabaseError } from 'pg'
import { expect, test } from 'vitest'
import { createTransact, type Database } from '../../src/db/database.ts'
import type { OrgId } from '../../src/lib/ids.ts'
import { createHoldOrganization } from '../../src/organizations/rules.ts'
import { lockOrganization } from '../../src/organizations/sql.ts'
import { startApiForTest } from '../kit/installation.ts'

test('many requests for one organization leave connections for the others', async () => {
  const api = await startApiForTest()
  const [busy, other] = [await api.organization(), await api.organization()]
  const { token } = await api.person([
    { orgId: busy, role: 'owner' },
    { orgId: other, role: 'owner' },
  ])
  const create = (orgId: OrgId) =>
    fetch(`${api.url}/api/v1/organizations/${orgId}/api-keys`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ name: 'x' }),
    })
  const letGo = Promise.withResolvers<void>()
  const held = Promise.withResolvers<void>()
  const holding = api.db.begin(async (tx) => {
    await lockOrganization(tx, busy)
    held.resolve()
    await letGo.promise
  })
  await held.promise
  const waiting = Array.from({ length: 30 }, () => create(busy))
  expect((await create(other)).status).toBe(201)
  letGo.resolve()
  await holding
  for (const answer of await Promise.all(waiting)) expect(answer.status).toBe(201)
})

const orgId = 'org_01h455vb4pex5vsknk084sn02q' as OrgId
const lockTimeout = () => new DatabaseError('canceled', 8, 'error')

test('work for one organization runs one at a time, and a failure affects no other', async () => {
  const db = { begin: (work: (tx: unknown) => unknown) => work(async () => [{}]) } as unknown as Database
  const hold = createHoldOrganization(createTransact(db, () => {}))
  const seen: string[] = []
  const work = (name: string) => async () => {
    seen.push(`${name} begins`)
    await new Promise((done) => setTimeout(done, 5))
    seen.push(`${name} ends`)
    if (name === 'b') throw new Error('no')
    return name
  }
  const outcomes = await Promise.allSettled(['a', 'b', 'c'].map((name) => hold(orgId, work(name))))
  expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
  expect(seen).toEqual(['a begins', 'a ends', 'b begins', 'b ends', 'c begins', 'c ends'])
  expect(await hold(orgId, work('d'))).toBe('d')
})

test.each([
  ['the database cannot be reached', Object.assign(new Error('away'), { code: 'ETIMEDOUT' })],
  ['the organization is locked for too long', Object.assign(lockTimeout(), { code: '55P03' })],
])('when %s, all waiting requests fail at once', async (_why, away) => {
  let attempts = 0
  const db = {
    async begin() {
      attempts += 1
      await new Promise((done) => setTimeout(done, 5))
      throw away
    },
  } as unknown as Database
  const hold = createHoldOrganization(createTransact(db, () => {}))
  const outcomes = await Promise.allSettled(Array.from({ length: 5 }, () => hold(orgId, async () => 1)))
  expect(outcomes).toEqual(Array.from({ length: 5 }, () => ({ status: 'rejected', reason: away })))
  expect(attempts).toBe(1)
})

test('the work does not start when the lock fails', async () => {
  const tx = () => Promise.reject(new Error('no lock'))
  const db = { begin: (work: (given: unknown) => Promise<unknown>) => work(tx) } as unknown as Database
  let hasStarted = false
  const work = async () => {
    hasStarted = true
  }
  await expect(createHoldOrganization(createTransact(db, () => {}))(orgId, work)).rejects.toThrow('no lock')
  expect(hasStarted).toBe(false)
})
