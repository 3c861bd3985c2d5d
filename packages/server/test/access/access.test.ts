import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { type Access, createAccessLookup, findAccess } from '../../src/access/access.ts'
import { connect, type Database, isUnavailable } from '../../src/db/database.ts'
import { insertApiKey, revokeApiKey } from '../../src/keys/sql.ts'
import { newId, type OrgId, type UserId } from '../../src/lib/ids.ts'
import { mintApiKey } from '../../src/lib/secrets.ts'
import { removeMember, removeUser, setMember } from '../../src/organizations/rules.ts'
import { call } from '../kit/client.ts'
import { startApi, type TestApi, testOperator } from '../kit/installation.ts'

let api: TestApi
beforeAll(async () => {
  api = await startApi()
})
afterAll(() => api.close())

/** A pool that records every statement that it sends. */
function counting() {
  const statements: { query: string; parameters: unknown[] }[] = []
  const pool = connect(api.target, { name: 'test', connectionsMax: 4 })
  onTestFinished(() => pool.end())
  const db = Object.assign((...given: Parameters<Database>) => pool(...given), pool, {
    unsafe: (query: string, parameters: string[]) => {
      statements.push({ query, parameters })
      return pool.unsafe(query, parameters)
    },
  }) as Database
  const lookups = () => statements.filter(({ query }) => query.includes('keyhook.api_keys'))
  /** `asked`: the hashes of each. */
  return { db, lookups: () => lookups().length, asked: () => lookups().map(({ parameters }) => parameters[0]) }
}

async function addKey(
  orgId: OrgId,
  userId: UserId,
): Promise<{ id: ReturnType<typeof newId<'key'>>; hash: string; apiKey: string }> {
  const { apiKey, keyPrefix, hash } = mintApiKey('kh')
  const id = newId('key')
  await api.db.begin((tx) =>
    insertApiKey(tx, orgId, { id, name: 'x', keyPrefix, hash, createdBy: userId, createdByKey: null }, 1_000_000),
  )
  return { id, hash, apiKey }
}

/** The lookup of the server, with promises. */
function askingOf(db: Database) {
  const lookup = createAccessLookup(db)
  type Found = Parameters<typeof lookup.login>[1]
  const promised = (ask: (found: Found) => void) =>
    new Promise<Access | null>((resolve, reject) => {
      ask((error, access) => (error === null ? resolve(access) : reject(error)))
    })
  return {
    key: (token: string) => promised((found) => lookup.key(token, found)),
    login: (userId: UserId, orgId: OrgId) => promised((found) => lookup.login({ names: { userId }, orgId }, found)),
  }
}

test('all keys of one tick are looked up in one statement', async () => {
  const { db, lookups } = counting()
  const lookup = askingOf(db)
  const orgId = await api.organization()
  const { userId } = await api.person([{ orgId, role: 'member' }])
  const { apiKey } = await addKey(orgId, userId)
  await lookup.key(apiKey)
  const before = lookups()
  const asked = Array.from({ length: 200 }, (_, i) => (i % 2 === 0 ? lookup.key(apiKey) : lookup.login(userId, orgId)))
  const found = await Promise.all(asked)
  expect(lookups() - before).toBe(1)
  expect(found.every((access) => access?.userId === userId)).toBe(true)
  await lookup.key(apiKey)
  expect(lookups() - before).toBe(2)
})

test('a key that many requests of one tick present is looked up once, and each of them is answered', async () => {
  const { db, asked } = counting()
  const lookup = askingOf(db)
  const orgId = await api.organization()
  const { userId } = await api.person([{ orgId, role: 'member' }])
  const [one, other] = [await addKey(orgId, userId), await addKey(orgId, userId)]
  const unknown = mintApiKey('kh')
  const tokens = Array.from({ length: 90 }, (_, i) => [one.apiKey, unknown.apiKey, other.apiKey][i % 3]!)
  const found = await Promise.all(tokens.map(lookup.key))
  expect(asked()).toEqual([[one.hash, unknown.hash, other.hash].join()])
  const keyIds = found.map((access) => (access?.kind === 'key' ? access.keyId : null))
  expect(keyIds).toEqual(tokens.map((_, i) => [one.id, null, other.id][i % 3]))
})

test('requests that arrive after a revocation are not answered by a statement that was sent before it', async () => {
  const { db, asked } = counting()
  const lookup = askingOf(db)
  const orgId = await api.organization()
  const { userId } = await api.person([{ orgId, role: 'member' }])
  const { id, apiKey } = await addKey(orgId, userId)
  const held = await api.db.reserve()
  onTestFinished(() => held.release())
  // The statement cannot end before the lock is released.
  await held`begin`
  await held`lock table keyhook.organizations in access exclusive mode`
  const early = lookup.key(apiKey)
  await expect.poll(asked).toHaveLength(1)
  await held`update keyhook.api_keys set revoked_at = now() where id = ${id}`
  const late = [lookup.key(apiKey), lookup.key(apiKey)]
  await held`commit`
  await early
  expect(await Promise.all(late)).toEqual([null, null])
  expect(asked()).toHaveLength(2)
})

test('a token that cannot be a key is not looked up, and there is no callback', async () => {
  const { db, lookups } = counting()
  const lookup = createAccessLookup(db)
  const { apiKey } = mintApiKey('kh')
  const wrong = `${apiKey.slice(0, -1)}${apiKey.endsWith('0') ? '1' : '0'}`
  expect(lookup.key(wrong, () => expect.unreachable())).toBe(false)
  const asked = new Promise((done) => expect(lookup.key(apiKey, done)).toBe(true))
  await asked
  expect(lookups()).toBe(1)
})

test('more tokens than the limit of one statement are looked up in as few statements as possible', async () => {
  const { db, lookups } = counting()
  const lookup = askingOf(db)
  const found = await Promise.all(Array.from({ length: 600 }, () => lookup.key(mintApiKey('kh').apiKey)))
  expect(found).toEqual(Array(600).fill(null))
  expect(lookups()).toBe(3)
})

test('answers are never mixed up: hundreds of keys and logins at once, each sees its own organization', async () => {
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

test('a statement that fails fails its own requests, and the next one works', async () => {
  const { db } = counting()
  const lookup = askingOf(db)
  const orgId = await api.organization()
  const { userId } = await api.person([{ orgId, role: 'member' }])
  await api.db`alter table keyhook.memberships rename to memberships_away`
  const failed = await Promise.allSettled([lookup.login(userId, orgId), lookup.key(mintApiKey('kh').apiKey)])
  expect(failed.map((one) => one.status)).toEqual(['rejected', 'rejected'])
  await api.db`alter table keyhook.memberships_away rename to memberships`
  expect(await lookup.login(userId, orgId)).toMatchObject({ userId })
})

test('a standby, which may not know of a revocation yet, gives no access', async () => {
  const orgId = await api.organization()
  const { userId } = await api.person([{ orgId, role: 'member' }])
  const { hash } = await addKey(orgId, userId)
  // The same server, which reports that it is one.
  const settings = { search_path: 'pretended, pg_catalog' }
  const db = connect({ ...api.target, settings }, { name: 'test', connectionsMax: 1 })
  onTestFinished(() => db.end())
  await db.unsafe('create schema pretended')
  await db.unsafe('create function pretended.pg_is_in_recovery() returns boolean return true')
  for (const presented of [{ kind: 'key', hash } as const, { kind: 'login', names: { userId }, orgId } as const]) {
    expect(await findAccess(api.db, [presented])).toEqual([expect.objectContaining({ userId })])
    await expect(findAccess(db, [presented])).rejects.toSatisfy(isUnavailable)
  }
  // The same for unknown keys, and for several at once.
  for (const hashes of [['0'.repeat(64)], [hash, '0'.repeat(64)]]) {
    const presented = hashes.map((one) => ({ kind: 'key', hash: one }) as const)
    await expect(findAccess(db, presented)).rejects.toSatisfy(isUnavailable)
  }
})

test('a change of role, membership, user or key has effect on the next look-up', async () => {
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
    return found.map((access) => (access === null ? 'none' : (access.membership?.role ?? 'no member')))
  }
  expect(await roles()).toEqual(['owner', 'owner'])
  await setMember(api.db, testOperator, { orgId, userId, role: 'member' })
  expect(await roles()).toEqual(['member', 'member'])
  await removeMember(api.db, testOperator, { orgId, userId })
  expect(await roles()).toEqual(['none', 'no member'])
  await setMember(api.db, testOperator, { orgId, userId, role: 'admin' })
  expect(await roles()).toEqual(['admin', 'admin'])
  await api.db.begin((tx) => revokeApiKey(tx, orgId, key.id, null))
  expect(await roles()).toEqual(['none', 'admin'])
  await removeUser(api.db, testOperator, { userId })
  expect(await roles()).toEqual(['none', 'none'])
})
