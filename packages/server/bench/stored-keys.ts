import { operator } from '../src/access/audit.ts'
import { type ConnectionTarget, connect, type Database } from '../src/db/database.ts'
import { migrate, readMigrations } from '../src/db/migrate.ts'
import { newId, type OrgId } from '../src/lib/ids.ts'
import type { MintedKey } from '../src/lib/secrets.ts'
import { createOrganization, createUser, setMember } from '../src/organizations/rules.ts'

const organizations = 100

/** What a restricted key has: permissions, networks and an end. */
const restrictions = JSON.stringify({ permissions: ['organizations:read', 'webhooks:read'], networks: ['127.0.0.0/8'] })

/** A new database with that many keys, of which some are in use. */
export async function fillWithKeys(
  cluster: ConnectionTarget,
  name: string,
  keys: MintedKey[],
  count: number,
  { restricted = false } = {},
): Promise<ConnectionTarget> {
  const admin = connect(cluster, { name: 'bench', connectionsMax: 1 })
  await admin.unsafe(`create database ${name}`)
  await admin.end()
  const target = { ...cluster, database: name }
  const db = connect(target, { name: 'bench', connectionsMax: 4 })
  await migrate(db, await readMigrations())
  await fillWithUsedKeys(db, keys)
  if (restricted) {
    await db`
      update keyhook.api_keys set hash = null, restricted_hash = hash, restrictions = ${restrictions}::text::jsonb,
        expires_at = now() + interval '1 year'`
  }
  await fillUpTo(db, count)
  await db.end()
  return target
}

async function fillWithUsedKeys(db: Database, keys: readonly MintedKey[]): Promise<void> {
  const orgIds: OrgId[] = []
  for (let n = 0; n < organizations; n++) {
    const { id } = await db.begin((tx) => createOrganization(tx, operator, { name: `Organization ${n}` }))
    const user = await db.begin((tx) => createUser(tx, { email: `user-${n}@example.com`, name: null, subject: null }))
    await setMember(db, operator, { orgId: id, userId: user.id, role: 'admin' })
    orgIds.push(id)
  }
  await db`
    insert into keyhook.api_keys (org_id, id, name, key_prefix, hash, created_by, role)
    select u.org_id, u.id, 'bench', u.key_prefix, decode(u.hash, 'hex'), m.user_id, m.role
    from unnest(
      ${keys.map((_, n) => orgIds[n % organizations]!)}::text[], ${keys.map(() => newId('key'))}::text[],
      ${keys.map((key) => key.keyPrefix)}::text[], ${keys.map((key) => key.hash)}::text[]
    ) as u (org_id, id, key_prefix, hash)
    join keyhook.memberships m using (org_id)`
}

/** Keys that are not used: they make the index as deep as it would be. */
async function fillUpTo(db: Database, keys: number): Promise<void> {
  await db`
    insert into keyhook.api_keys (org_id, id, name, key_prefix, hash, created_by, role)
    select m.org_id, 'key_filler' || n, 'filler', 'kh_' || lpad(n::text, 8, '0'), sha256(('filler ' || n)::bytea), m.user_id, m.role
    from generate_series((select count(*) from keyhook.api_keys) + 1, ${keys}) as n
    join (select org_id, user_id, role, row_number() over (order by org_id) - 1 as place from keyhook.memberships) m
      on m.place = n % ${organizations}`
  await db`vacuum analyze keyhook.api_keys`
  // Otherwise PostgreSQL writes the filled pages while we measure.
  await db`checkpoint`
}
