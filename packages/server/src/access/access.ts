import type { Database } from '../db/database.ts'
import type { KeyId, OrgId, UserId } from '../lib/ids.ts'
import { hashApiKey, isApiKey } from '../lib/secrets.ts'
import { type KeyLimits, type Restrictions, readRestrictions } from './restrictions.ts'
import type { Role } from './roles.ts'

/** What a request presents: the hash of its API key (hex), or the user of its login token and the organization in its path. */
export type Presented = { kind: 'key'; hash: string } | LoginPresented

type LoginPresented = { kind: 'login'; names: NamedUser; orgId: OrgId | null }

/** The local issuer names users by our ids; an OpenID issuer has its own names, and must not be able to use one of ours. */
export type NamedUser =
  | { userId: string; sessionId?: string | null }
  | { subject: string; verifiedEmail: string | null }

/**
 * What the database knows about it now. A key always comes with its organization; a login with the organization in the path, if
 * the user is a member of it. `isByEmail`: the user has no subject yet, and was found by the verified address.
 */
export type Access =
  | ({ kind: 'key'; userId: UserId; keyId: KeyId; membership: Membership } & KeyLimits)
  | { kind: 'login'; userId: UserId; membership: Membership | null; isByEmail: boolean }
  /** An operator who has opened the organization for reading. The id is that of no user. */
  | { kind: 'operator'; userId: UserId; membership: Membership | null }

export const restrictionsOf = (access: Access): Restrictions | null =>
  access.kind === 'key' ? access.restrictions : null

type Membership = { role: Role; organization: OrganizationRow }

/** All tokens of one batch. The answers are in the order of the questions; null is no access. */
export async function findAccess(db: Database, presented: readonly Presented[]): Promise<(Access | null)[]> {
  const access: (Access | null)[] = new Array(presented.length).fill(null)
  const hashes: string[] = []
  const logins: LoginPresented[] = []
  const places = { key: [] as number[], login: [] as number[] }
  presented.forEach((one, place) => {
    places[one.kind].push(place)
    if (one.kind === 'key') hashes.push(one.hash)
    else logins.push(one)
  })
  await Promise.all([
    hashes.length > 0 && findKeys(db, hashes, (n, found) => (access[places.key[n - 1]!] = found)),
    logins.length > 0 && findLogins(db, logins, (n, found) => (access[places.login[n - 1]!] = found)),
  ])
  return access
}

type Found = (n: number, access: Access) => void

/** A standby may not know of a revocation yet. The code is that of a server which rejects writes because it is one. */
export const standby = () =>
  Object.assign(new Error('PostgreSQL is a standby, which may not know of revocations yet'), { code: '25006' })

/*
 * The statement of nearly every request.
 *
 * A key that is revoked or has expired, and one whose creator has left (role is null), are not found. The role stands in the
 * key's own row, where a foreign key keeps it equal to the membership's. So do the key's restrictions, which the caller checks.
 * `limit 1`, `offset 0`, `materialized`: one index lookup per hash, and few rows to join. With `offset 0` for both, the planner expects
 * a two-hundredth of all keys for each hash, and reads all organizations for every batch. Free to choose, the planner reads all keys of a table without statistics:
 * 359 ms for a batch instead of 0.5 ms, with 100,000 keys.
 * `(select $1)`: hides the number of hashes from the planner, which would otherwise plan every batch again.
 * One text as the answer, with control characters between lines and fields, which no id, role or name may contain: for 40 keys
 * rows of columns take 874 us and 171 us of Node, this 486 us and 39 us.
 */
const keysStatement = `
  with k as materialized (
    select p.n, k.id, k.org_id, k.created_by, k.role, k.limits
    from (
      select n, decode(hash, 'hex') as hash
      from unnest(string_to_array((select $1::text), ',')) with ordinality as p (hash, n)
      offset 0
    ) as p
    cross join lateral (
      select k.id, k.org_id, k.created_by, k.role, case when k.hash is null then
        coalesce(k.restrictions::text, '') || e'\\x1f' || coalesce(trunc(date_part('epoch', k.expires_at) * 1000)::text, '')
      end as limits
      from keyhook.api_keys k
      where coalesce(k.hash, k.restricted_hash) = p.hash and k.revoked_at is null and k.role is not null
        and (k.expires_at is null or k.expires_at > now())
      limit 1
    ) as k
  )
  select string_agg(
    k.n || e'\\x1f' || k.id || e'\\x1f' || k.created_by || e'\\x1f' || k.role || e'\\x1f' || o.id || e'\\x1f' ||
      trunc(date_part('epoch', o.created_at) * 1000)::bigint || e'\\x1f' || o.name || coalesce(e'\\x1f' || k.limits, ''),
    e'\\x1e'
  ) as found, pg_is_in_recovery() as standby
  from k join keyhook.organizations o on o.id = k.org_id`

type KeyLine = [
  n: string,
  keyId: KeyId,
  userId: UserId,
  role: Role,
  orgId: OrgId,
  createdAtMs: string,
  name: string,
  // Of a restricted key.
  restrictions?: string,
  expiresAtMs?: string,
]

async function findKeys(db: Database, hashes: readonly string[], onFound: Found): Promise<void> {
  const [answer] = await db.unsafe<{ found: string | null; standby: boolean }[]>(keysStatement, [hashes.join()])
  if (answer!.standby) throw standby()
  for (const line of answer!.found?.split('\x1e') ?? []) {
    const [n, keyId, userId, role, orgId, createdAtMs, name, limits, expiresAtMs] = line.split('\x1f') as KeyLine
    const organization = { id: orgId, name, created_at: new Date(Number(createdAtMs)) }
    const restrictions = limits ? readRestrictions(limits) : null
    const expiresAt = expiresAtMs ? new Date(Number(expiresAtMs)) : null
    onFound(Number(n), { kind: 'key', userId, keyId, membership: { role, organization }, restrictions, expiresAt })
  }
}

type LoginRow = {
  n: number
  user_id: UserId | null
  preference: number
  role: Role | null
  id: OrgId
  name: string
  created_at: Date
  standby: boolean
}

/**
 * A login of the local issuer is matched by our user id, and one of a console session only while that session lasts. One of an
 * OpenID issuer is matched by the subject that is recorded for a user, or, for a user without one, by an e-mail address that the
 * issuer has verified. That may be a user who came by an invitation, the oldest one, if no verified user has the address.
 * A service member has neither subject nor address, and its id in a token is refused.
 */
async function findLogins(db: Database, logins: readonly LoginPresented[], onFound: Found): Promise<void> {
  const rows = await db<LoginRow[]>`
    select p.n::int as n, u.id as user_id, u.preference, m.role, o.id, o.name, o.created_at, pg_is_in_recovery() as standby
    from unnest(
      ${logins.map(({ names }) => ('userId' in names ? names.userId : null))}::text[],
      ${logins.map(({ names }) => ('subject' in names ? names.subject : null))}::text[],
      ${logins.map(({ names }) => ('subject' in names ? names.verifiedEmail : null))}::text[],
      ${logins.map(({ orgId }) => orgId)}::text[],
      ${logins.map(({ names }) => ('userId' in names ? (names.sessionId ?? null) : null))}::text[]
    ) with ordinality as p (user_id, subject, email, org_id, session_id, n)
    left join lateral (
      select c.id, c.preference from (
        select id, 1 as preference from keyhook.users where id = p.user_id and removed_at is null and not is_service and (
          p.session_id is null or exists (
            select from keyhook.console_sessions s
            where s.id = p.session_id and s.user_id = users.id and s.expires_at > now()
          )
        )
        union all
        select id, 2 from keyhook.users where subject = p.subject and removed_at is null
        union all
        select id, 3 from keyhook.users
        where lower(email collate "C") = lower(p.email collate "C") and subject is null
          and removed_at is null and verified_by is not null
        union all
        select id, 4 from keyhook.users u
        where lower(email collate "C") = lower(p.email collate "C") and removed_at is null and verified_by is null
          and not exists (
            select from keyhook.users v
            where lower(v.email collate "C") = lower(u.email collate "C") and v.removed_at is null
              and v.verified_by is not null
          )
      ) c order by c.preference, c.id limit 1
    ) u on true
    left join keyhook.memberships m on m.org_id = p.org_id and m.user_id = u.id
    left join keyhook.organizations o on o.id = m.org_id`
  if (rows[0]!.standby) throw standby()
  for (const { n, user_id: userId, preference, role, id, name, created_at } of rows) {
    if (userId === null) continue
    const membership = role === null ? null : { role, organization: { id, name, created_at } }
    onFound(n, { kind: 'login', userId, membership, isByEmail: preference >= 3 })
  }
}

/** Callbacks and not promises: the promises of one request would cost as much as its look-up. */
export type AccessLookup = {
  /** Returns false, without calling back, for a token that cannot be a key: no query is sent for it. */
  key(token: string, done: OnAccess): boolean
  login(login: Omit<LoginPresented, 'kind'>, done: OnAccess): void
}

type OnAccess = (error: unknown, access: Access | null) => void

/** `questions`: what the statement looks up. `keys`: the index of each key in it. `requests`: who waits for which of them. */
type Batch = { questions: Presented[]; keys: Map<string, number>; requests: Request[] }

type Request = { index: number; done: OnAccess }

type Answered = { requests: Request[]; access: readonly (Access | null)[]; doneCount: number }

/** A larger batch only makes its first request wait longer. */
const batchMax = 256
const answersAtOnceMin = 8

/**
 * Collects all tokens that arrive in one turn of the event loop and looks them up in one statement. The next ones collect while it
 * runs, so batches grow with the load. A key that several requests present is hashed and looked up once.
 * Nothing is kept afterwards: a statement is sent after the requests that it answers have arrived, so each of them sees every
 * revocation that was answered before.
 *
 * No batcher of `lib`: a request would cost a promise, and all answers of a batch would leave at once.
 */
export function createAccessLookup(db: Database): AccessLookup {
  const batches: Batch[] = []
  const answers: Answered[] = []
  let collected = 0
  let inFlight = 0
  let isScheduled = false

  function schedule(): void {
    if (isScheduled) return
    isScheduled = true
    // setImmediate runs after every socket that was readable in this turn has been read.
    setImmediate(turn)
  }

  /** Answers come first: with the statement first, batches are smaller (0.93 of the rate). */
  function turn(): void {
    isScheduled = false
    answerSome()
    if (collected > 0 && inFlight === 0) void send(batches.shift()!)
    if (answers.length > 0) schedule()
  }

  /**
   * Answers a quarter of all current requests, and the others in the next turns. With all at once the same clients would form one
   * batch again and again, and Node would be idle for a fifth of the time while PostgreSQL works (64 connections; halves: a tenth).
   */
  function answerSome(): void {
    const unanswered = answers.reduce((sum, { requests, doneCount }) => sum + requests.length - doneCount, 0)
    let left = Math.max(answersAtOnceMin, Math.ceil((unanswered + collected + inFlight) / 4))
    for (let first = answers[0]; first !== undefined && left > 0; first = answers[0]) {
      const until = Math.min(first.requests.length, first.doneCount + left)
      left -= until - first.doneCount
      while (first.doneCount < until) {
        const request = first.requests[first.doneCount++]!
        callBack(request, null, first.access[request.index]!)
      }
      if (until === first.requests.length) answers.shift()
    }
  }

  async function send({ questions, requests }: Batch): Promise<void> {
    collected -= requests.length
    inFlight = requests.length
    try {
      answers.push({ requests, access: await findAccess(db, questions), doneCount: 0 })
    } catch (error) {
      for (const request of requests) callBack(request, error, null)
    }
    inFlight = 0
    schedule()
  }

  function openBatch(): Batch {
    const last = batches.at(-1)
    if (last !== undefined && last.requests.length < batchMax) return last
    const next: Batch = { questions: [], keys: new Map(), requests: [] }
    batches.push(next)
    return next
  }

  function add(batch: Batch, index: number, done: OnAccess): void {
    batch.requests.push({ index, done })
    collected += 1
    if (inFlight === 0) schedule()
  }

  return {
    key(token, done) {
      const batch = openBatch()
      let index = batch.keys.get(token)
      if (index === undefined) {
        if (!isApiKey(token)) return false
        index = batch.questions.push({ kind: 'key', hash: hashApiKey(token) }) - 1
        batch.keys.set(token, index)
      }
      add(batch, index, done)
      return true
    },
    login(login, done) {
      const batch = openBatch()
      add(batch, batch.questions.push({ kind: 'login', ...login }) - 1, done)
    },
  }
}

/** A callback that throws is a bug: it ends the process, but only after the other requests have their answers. */
function callBack(request: Request, error: unknown, access: Access | null): void {
  try {
    request.done(error, access)
  } catch (thrown) {
    process.nextTick(() => {
      throw thrown
    })
  }
}

export type OrganizationRow = { id: OrgId; name: string; created_at: Date }
