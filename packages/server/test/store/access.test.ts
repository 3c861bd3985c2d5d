import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { hashApiKey, mintApiKey } from '../../src/domain/api-key.ts'
import { newId, type OrgId, type UserId } from '../../src/kernel/ids.ts'
import { removeMember, removeUser, setMember } from '../../src/operator/directory.ts'
import { type Access, findAccess, type Presented } from '../../src/store/access.ts'
import { createAccessLookup } from '../../src/store/access-batch.ts'
import { insertApiKey, revokeApiKey } from '../../src/store/api-keys.ts'
import type { Database } from '../../src/store/database.ts'
import { postgres } from '../../src/store/postgres-driver.ts'
import { call } from '../support/client.ts'
import { startApi, type TestApi, testOperator } from '../support/installation.ts'

let api: TestApi
beforeAll(async () => {
  api = await startApi()
})
afterAll(() => api.close())

/** A pool of its own that notes every statement it sends. */
function counting() {
  const statements: string[] = []
  const target = api.target as Extract<typeof api.target, { host: string }>
  const db = postgres({
    ...target,
    path: `${target.host}/.s.PGSQL.${target.port}`,
    max: 4,
    debug: (_connection, query) => statements.push(query),
  })
  onTestFinished(() => db.end())
  const lookups = () => statements.filter((query) => query.includes('keyhook.api_keys')).length
  return { db, lookups }
}

async function addKey(
  orgId: OrgId,
  userId: UserId,
): Promise<{ id: ReturnType<typeof newId<'key'>>; hash: string; apiKey: string }> {
  const { apiKey, keyPrefix, hash } = mintApiKey('kh')
  const id = newId('key')
  await api.db.begin((tx) => insertApiKey(tx, orgId, { id, name: 'x', keyPrefix, hash, createdBy: userId }, 1_000_000))
  return { id, hash, apiKey }
}

/** As the server asks, but with a promise. */
function askingOf(db: Database) {
  const lookup = createAccessLookup(db)
  return (presented: Presented) =>
    new Promise<Access | null>((resolve, reject) => {
      lookup(presented, (error, access) => (error === null ? resolve(access) : reject(error)))
    })
}

test('all tokens of one tick are asked for in one statement', async () => {
  const { db, lookups } = counting()
  const lookup = askingOf(db)
  const orgId = await api.organization()
  const { userId } = await api.person([{ orgId, role: 'member' }])
  const key = await addKey(orgId, userId)
  await lookup({ kind: 'key', hash: key.hash })
  const before = lookups()
  const asked = Array.from({ length: 200 }, (_, i) =>
    i % 2 === 0 ? lookup({ kind: 'key', hash: key.hash }) : lookup({ kind: 'login', names: { userId }, orgId }),
  )
  const found = await Promise.all(asked)
  expect(lookups() - before).toBe(1)
  expect(found.every((access) => access?.userId === userId)).toBe(true)
  await lookup({ kind: 'key', hash: key.hash })
  expect(lookups() - before).toBe(2)
})

test('more tokens than one statement should carry are asked for in as few as it takes', async () => {
  const { db, lookups } = counting()
  const lookup = askingOf(db)
  const found = await Promise.all(
    Array.from({ length: 600 }, () => lookup({ kind: 'key', hash: hashApiKey('unknown') })),
  )
  expect(found).toEqual(Array(600).fill(null))
  expect(lookups()).toBe(3)
})

test('answers never cross: hundreds of keys and logins at once, each sees its own organization', async () => {
  const people = await Promise.all(
    Array.from({ length: 40 }, async (_, i) => {
      const orgId = await api.organization(`Org ${i}`)
      const person = await api.person([{ orgId, role: (['owner', 'admin', 'member'] as const)[i % 3]! }])
      const key = await addKey(orgId, person.userId)
      return { orgId, person, key }
    }),
  )
  const garbage = mintApiKey('kh').apiKey
  const rounds = Array.from({ length: 10 }, () => people).flat()
  const replies = await Promise.all(
    rounds.flatMap(({ orgId, person, key }, i) => [
      call<{ id: string }[]>(`${api.url}/api/v1/organizations`, { token: key.apiKey }).then(
        (reply) => [orgId, reply] as const,
      ),
      call<{ id: string }[]>(`${api.url}/api/v1/organizations`, { token: person.token }).then(
        (reply) => [orgId, reply] as const,
      ),
      ...(i % 5 === 0
        ? [call<never>(`${api.url}/api/v1/organizations`, { token: garbage }).then((reply) => [null, reply] as const)]
        : []),
    ]),
  )
  for (const [orgId, reply] of replies) {
    expect(reply.status).toBe(orgId === null ? 401 : 200)
    if (orgId !== null) expect(reply.body.map((one) => one.id)).toEqual([orgId])
  }
})

test('a statement that fails fails the requests it was asked for, and the next one works', async () => {
  const { db } = counting()
  const lookup = askingOf(db)
  const orgId = await api.organization()
  const { userId } = await api.person([{ orgId, role: 'member' }])
  await api.db`alter table keyhook.memberships rename to memberships_away`
  const failed = await Promise.allSettled([
    lookup({ kind: 'login', names: { userId }, orgId }),
    lookup({ kind: 'key', hash: hashApiKey('x') }),
  ])
  expect(failed.map((one) => one.status)).toEqual(['rejected', 'rejected'])
  await api.db`alter table keyhook.memberships_away rename to memberships`
  expect(await lookup({ kind: 'login', names: { userId }, orgId })).toMatchObject({ userId })
})

test('access follows the database at once: role, membership, user, key', async () => {
  const orgId = await api.organization()
  const elsewhere = await api.organization()
  const { userId } = await api.person([
    { orgId, role: 'owner' },
    { orgId: elsewhere, role: 'owner' },
  ])
  const key = await addKey(orgId, userId)
  const roles = async () => {
    const found = await findAccess(api.db, [
      { kind: 'key', hash: key.hash },
      { kind: 'login', names: { userId }, orgId },
    ])
    return found.map((access) => (access === null ? 'nobody' : (access.membership?.role ?? 'no member')))
  }
  expect(await roles()).toEqual(['owner', 'owner'])
  await setMember(api.db, testOperator, { orgId, userId, role: 'member' })
  expect(await roles()).toEqual(['member', 'member'])
  await removeMember(api.db, testOperator, { orgId, userId })
  expect(await roles()).toEqual(['nobody', 'no member'])
  await setMember(api.db, testOperator, { orgId, userId, role: 'admin' })
  expect(await roles()).toEqual(['admin', 'admin'])
  await api.db.begin((tx) => revokeApiKey(tx, orgId, key.id, null))
  expect(await roles()).toEqual(['nobody', 'admin'])
  await removeUser(api.db, testOperator, { userId })
  expect(await roles()).toEqual(['nobody', 'nobody'])
})
