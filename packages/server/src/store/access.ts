import type { Database } from '../db/database.ts'
import type { Role } from '../domain/roles.ts'
import type { KeyId, OrgId, UserId } from '../kernel/ids.ts'
import type { OrganizationRow } from './organizations.ts'

/** What a request shows: the hash of its API key (hex), or whom its login token names and which organization it asks for. */
export type Presented = { kind: 'key'; hash: string } | { kind: 'login'; names: NamedUser; orgId: OrgId | null }

/** The local issuer names users by our ids; an OpenID issuer has names of its own, and must not pass one off as ours. */
export type NamedUser = { userId: string } | { subject: string; verifiedEmail: string | null }

/**
 * What the database says about it, now. A key always comes with the one organization it belongs to; a login comes with
 * the organization that was asked for, if the user is in it.
 */
export type Access =
  | { kind: 'key'; userId: UserId; keyId: KeyId; membership: Membership }
  | { kind: 'login'; userId: UserId; membership: Membership | null }

type Membership = { role: Role; organization: OrganizationRow }

export type LoginPresented = Extract<Presented, { kind: 'login' }>

/*
 * The answer is one text: a line for each token that was found, its fields apart by control characters, which neither an
 * id nor a role nor, by a check of its table, an organization's name can contain. As rows of seven columns it would cost
 * Node twice as much to read, and as JSON it would cost PostgreSQL twice as much to write (measured, batches of 35).
 */
const fieldEnd = '\x1f'
const lineEnd = '\x1e'

type Line = ['key' | 'login', string, KeyId, UserId, Role | '', OrgId, string, string]

/** The hot query: every token of a tick in one statement. */
export async function findAccess(db: Database, presented: readonly Presented[]): Promise<(Access | null)[]> {
  const hashes: string[] = []
  const keyPlaces: number[] = []
  const logins: LoginPresented[] = []
  const loginPlaces: number[] = []
  for (let place = 0; place < presented.length; place++) {
    const one = presented[place]!
    if (one.kind === 'key') {
      hashes.push(one.hash)
      keyPlaces.push(place)
    } else {
      logins.push(one)
      loginPlaces.push(place)
    }
  }
  const [answer] = await (logins.length === 0 ? askByKey(db, hashes) : askByKeyOrLogin(db, hashes, logins))
  if (answer?.standby) throw standby()
  const access: (Access | null)[] = new Array(presented.length).fill(null)
  for (const line of answer?.found?.split(lineEnd) ?? []) {
    const [kind, place, keyId, userId, role, orgId, createdAtMs, name] = line.split(fieldEnd) as Line
    const organization = { id: orgId, name, created_at: new Date(Number(createdAtMs)) }
    if (kind === 'key') {
      access[keyPlaces[Number(place) - 1]!] = { kind, userId, keyId, membership: { role: role as Role, organization } }
    } else {
      access[loginPlaces[Number(place) - 1]!] = {
        kind,
        userId,
        membership: role === '' ? null : { role, organization },
      }
    }
  }
  return access
}

/** It may lag behind: a key that was revoked on the primary would still be good. As a standby refuses what is written there. */
const standby = () =>
  Object.assign(new Error('PostgreSQL is a standby, which may not know of revocations yet'), { code: '25006' })

const keyLine = (place: string) =>
  `e'key\\x1f' || ${place} || e'\\x1f' || k.id || e'\\x1f' || k.created_by || e'\\x1f' || k.role || e'\\x1f' || o.id || e'\\x1f' ||
    trunc(date_part('epoch', o.created_at) * 1000)::bigint || e'\\x1f' || o.name`
const isGood = 'k.revoked_at is null and k.role is not null'

/*
 * Written out once, not built for each batch: nothing is asked as often as this.
 *
 * A revoked key, and one whose creator has left, have no line, so they have no access; there is no other check. The
 * key's own row says the role: the schema keeps it what the membership says.
 *
 * The keys are found first, by themselves and one by one (`offset 0`): left to join freely, PostgreSQL walks every key of an
 * organization, or of all, while it has no statistics yet (measured on a fresh database of 100,000 keys: 359 ms a batch,
 * against 0.5 ms), and goes on to while a table grows that was small when it made its plan. And the hashes stand in a
 * subquery, so that the planner cannot see how many there are: having seen a few small batches, it would plan every batch
 * anew for ever, which costs more than running it.
 */
const keyLines = `
  with k as materialized (
    select p.n, k.id, k.org_id, k.created_by, k.role
    from (
      select n, decode(hash, 'hex') as hash
      from unnest(string_to_array((select $1::text), ',')) with ordinality as p (hash, n) offset 0
    ) as p
    cross join lateral (
      select k.id, k.org_id, k.created_by, k.role from keyhook.api_keys k
      where k.hash = p.hash and ${isGood}
      offset 0
    ) as k
  )
  select ${keyLine('k.n')}
  from k join keyhook.organizations o on o.id = k.org_id`

/**
 * A login of the local issuer is matched by our own user id. One of an OpenID issuer is matched by the subject recorded
 * for the user or else, for a user who has none recorded, by an e-mail address that the issuer says it verified. What an
 * issuer does not name is null and matches nobody.
 */
const loginLines = `
  select e'login\\x1f' || p.n || e'\\x1f\\x1f' || u.id || e'\\x1f' || coalesce(m.role, '') || e'\\x1f' || coalesce(o.id, '') ||
    e'\\x1f' || coalesce(trunc(date_part('epoch', o.created_at) * 1000)::bigint, 0) || e'\\x1f' || coalesce(o.name, '')
  from unnest($2::text[], $3::text[], $4::text[], $5::text[]) with ordinality as p (user_id, subject, email, org_id, n)
  cross join lateral (
    select c.id from (
      select id, 1 as preference from keyhook.users where id = p.user_id and removed_at is null
      union all
      select id, 2 from keyhook.users where subject = p.subject and removed_at is null
      union all
      select id, 3 from keyhook.users where lower(email collate "C") = lower(p.email collate "C") and subject is null and removed_at is null
    ) c order by c.preference limit 1
  ) u
  left join keyhook.memberships m on m.org_id = p.org_id and m.user_id = u.id
  left join keyhook.organizations o on o.id = m.org_id`

/** Mostly it is one script at a time. Without what it takes to ask for many, PostgreSQL has half the work (measured). */
const oneKeyStatement = `
  select (
    select ${keyLine('1')}
    from (select * from keyhook.api_keys k where k.hash = decode($1, 'hex') and ${isGood} offset 0) as k
    join keyhook.organizations o on o.id = k.org_id
  ) as found, pg_is_in_recovery() as standby`

const joined = (lines: string) =>
  `select string_agg(line, e'\\x1e') as found, pg_is_in_recovery() as standby from (${lines}) as l (line)`
const keyStatement = joined(keyLines)
const keyAndLoginStatement = joined(`(${keyLines}) union all (${loginLines})`)

type Answer = { found: string | null; standby: boolean }

const askByKey = (db: Database, hashes: readonly string[]) =>
  db.unsafe<Answer[]>(hashes.length === 1 ? oneKeyStatement : keyStatement, [hashes.join()])

const askByKeyOrLogin = (db: Database, hashes: readonly string[], logins: readonly LoginPresented[]) =>
  db.unsafe<Answer[]>(keyAndLoginStatement, [
    hashes.join(),
    logins.map(({ names }) => ('userId' in names ? names.userId : null)),
    logins.map(({ names }) => ('subject' in names ? names.subject : null)),
    logins.map(({ names }) => ('subject' in names ? names.verifiedEmail : null)),
    logins.map((login) => login.orgId),
  ])
