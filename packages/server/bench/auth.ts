import { mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { mintApiKey } from '../src/domain/api-key.ts'
import { newId, type OrgId } from '../src/kernel/ids.ts'
import { createOrganization, createUser, setMember } from '../src/operator/directory.ts'
import { connect, type Database } from '../src/store/database.ts'
import { openEmbedded } from '../src/store/embedded/index.ts'
import { migrate, readMigrations } from '../src/store/migrate.ts'
import { startChild } from './child.ts'
import { createLoad, type Load } from './load.ts'
import { median } from './median.ts'

const organizations = 100
const usedKeys = 5_000
const turns = Number(process.env.BENCH_TURNS ?? 9)
/** Until the compiler has seen enough of either side; before, its threads take a tenth of a core from the server. */
const warmUpTurns = 4
const operator = { kind: 'operator', tokenId: null, address: null } as const

/** What authentication costs: GET /api/v1/organizations with an API key, against bare Fastify with the same bytes. */
export async function benchAuth(): Promise<void> {
  const dataDir = await mkdtemp(join(tmpdir(), 'keyhook-bench-'))
  const embedded = await openEmbedded({ dataDir, purpose: 'serve', note: console.log })
  const db = connect(embedded.connection, { name: 'bench', connectionsMax: 4 })
  try {
    await migrate(db, await readMigrations())
    const tokens = await fillWithUsedKeys(db)
    const load = createLoad({ connections: 64, seconds: 3 })
    console.log(`${load.client}; ${turns} turns a side, in turns; ${usedKeys} different keys in use`)
    const few = await compare(load, embedded.connection, db, tokens, 100_000)
    const many = await compare(load, embedded.connection, db, tokens, 1_000_000)
    console.log(`ratio at 1,000,000 keys over ratio at 100,000: ${(many / few).toFixed(3)} (bar 0.95)`)
  } finally {
    await db.end()
    await embedded.stop()
    await rm(await realpath(join(dataDir, 'postgres')), { recursive: true, force: true })
    await rm(dataDir, { recursive: true, force: true })
  }
}

async function compare(load: Load, target: object, db: Database, tokens: string[], keys: number): Promise<number> {
  await fillUpTo(db, keys)
  const api = await startChild(new URL('api-server.ts', import.meta.url), { target })
  const path = '/api/v1/organizations'
  const sample = await fetch(api.url + path, { headers: { authorization: `Bearer ${tokens[0]}` } })
  const bare = await startChild(new URL('bare-server.ts', import.meta.url), { body: await sample.text() })
  const results: { bare: number; keyhook: number }[] = []
  for (let turn = -warmUpTurns; turn < turns; turn++) {
    const result = {
      bare: await load.requestsPerSecond(bare.url + path, tokens),
      keyhook: await load.requestsPerSecond(api.url + path, tokens),
    }
    if (turn >= 0) results.push(result)
  }
  await api.stop()
  await bare.stop()
  const ratio = median(results.map((result) => result.keyhook / result.bare))
  const rate = (side: 'bare' | 'keyhook') =>
    Math.round(median(results.map((result) => result[side]))).toLocaleString('en')
  console.log(
    `${keys.toLocaleString('en')} keys: bare Fastify ${rate('bare')}/s, Keyhook ${rate('keyhook')}/s, ratio ${ratio.toFixed(3)} (bar 0.80, goal 0.90)`,
  )
  return ratio
}

async function fillWithUsedKeys(db: Database): Promise<string[]> {
  const orgIds: OrgId[] = []
  for (let n = 0; n < organizations; n++) {
    const { id } = await db.begin((tx) => createOrganization(tx, operator, { name: `Organization ${n}` }))
    const user = await db.begin((tx) => createUser(tx, { email: `user-${n}@example.com`, name: null, subject: null }))
    await setMember(db, operator, { orgId: id, userId: user.id, role: 'admin' })
    orgIds.push(id)
  }
  const minted = Array.from({ length: usedKeys }, () => mintApiKey('kh'))
  await db`
    insert into keyhook.api_keys (org_id, id, name, key_prefix, hash, created_by, role)
    select u.org_id, u.id, 'bench', u.key_prefix, decode(u.hash, 'hex'), m.user_id, m.role
    from unnest(
      ${minted.map((_, n) => orgIds[n % organizations]!)}::text[], ${minted.map(() => newId('key'))}::text[],
      ${minted.map((key) => key.keyPrefix)}::text[], ${minted.map((key) => key.hash)}::text[]
    ) as u (org_id, id, key_prefix, hash)
    join keyhook.memberships m using (org_id)`
  return minted.map((key) => key.apiKey)
}

/** Keys that nobody uses: they make the index as deep as it would be. */
async function fillUpTo(db: Database, keys: number): Promise<void> {
  await db`
    insert into keyhook.api_keys (org_id, id, name, key_prefix, hash, created_by, role)
    select m.org_id, 'key_filler' || n, 'filler', 'kh_' || lpad(n::text, 8, '0'), sha256(('filler ' || n)::bytea), m.user_id, m.role
    from generate_series((select count(*) from keyhook.api_keys) + 1, ${keys}) as n
    join (select org_id, user_id, role, row_number() over (order by org_id) - 1 as place from keyhook.memberships) m
      on m.place = n % ${organizations}`
  await db`vacuum analyze keyhook.api_keys`
  // Else it writes out what was filled in while we measure.
  await db`checkpoint`
}
