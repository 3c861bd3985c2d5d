import type { Database, Executor, PageRequest, Transaction } from '../db/database.ts'
import { type Id, idFloor, type KeyId, newId, type OrgId, type UserId } from '../lib/ids.ts'

export const auditActions = [
  'organization.created',
  'organization.opened',
  'organization.renamed',
  'organization.key_lifetime_set',
  'organization.quotas_set',
  'organization.webhook_suspension_set',
  'member.invited',
  'invitation.withdrawn',
  'member.added',
  'member.role_changed',
  'member.removed',
  'service_member.created',
  'user.removed',
  'user.deleted',
  'user.subject_pinned',
  'user.verified',
  'user.passkey_added',
  'user.passkey_removed',
  'key.created',
  'key.updated',
  'key.rotated',
  'key.revoked',
  'key.leaked',
  'webhook.created',
  'webhook.updated',
  'webhook.paused',
  'webhook.resumed',
  'webhook.secret_rotated',
  'webhook.secret_switched',
  'webhook.deleted',
  'webhook.tested',
  'delivery.redelivered',
  'webhook.recovered',
  'event.reported',
  'database.created',
  'database.schedule_changed',
  'database.storage_limit_changed',
  'database.deleted',
  'database.moved',
  'database.lost',
  'backup.created',
  'backup.cancelled',
  'backup.deleted',
  'restore.created',
  'invoice.issued',
  'invoice.paid',
] as const
export type AuditAction = (typeof auditActions)[number]

/** Who made the change, and with what: an API key, a login token, or the operator's command line. */
export type Actor =
  | { kind: 'key'; userId: UserId; keyId: KeyId; address: string }
  | { kind: 'login'; userId: UserId; tokenId: string | null; address: string }
  /** `sessionId`: of the console. */
  | { kind: 'operator'; tokenId: string | null; address: string | null; sessionId?: string | null }

export type OperatorActor = Extract<Actor, { kind: 'operator' }>

/** The operator without a token: the command line, and changes made by settings. */
export const operator = { kind: 'operator', tokenId: null, address: null } as const satisfies Actor

export type AuditEntry = {
  orgId: OrgId
  action: AuditAction
  actor: Actor
  targetId: string
  details?: Record<string, string | number | null | string[]>
}

export type AuditRow = {
  id: Id<'aud'>
  at: Date
  action: AuditAction
  actor_kind: Actor['kind']
  user_id: UserId | null
  credential: string | null
  address: string | null
  target_id: string
  details: Record<string, unknown>
}

/** Takes a transaction and nothing else: an entry is committed or rolled back with the change it reports. */
export const recordAudit = async (tx: Transaction, entry: AuditEntry): Promise<void> => {
  await insertAudits(tx, [entry])
}

/** Many at once, in the given order. Also as a part of the statement that makes the changes. */
export const insertAudits = (db: Executor, entries: readonly AuditEntry[]) => db`
    insert into keyhook.audit_entries (org_id, id, action, actor_kind, user_id, credential, address, target_id, details)
    select org_id, id, action, actor_kind, user_id, credential, address, target_id, details::jsonb
    from unnest(
      ${entries.map((entry) => entry.orgId)}::text[], ${entries.map(() => newId('aud'))}::text[],
      ${entries.map((entry) => entry.action)}::text[], ${entries.map(({ actor }) => actor.kind)}::text[],
      ${entries.map(({ actor }) => userOf(actor))}::text[], ${entries.map(({ actor }) => credentialOf(actor))}::text[],
      ${entries.map(({ actor }) => actor.address)}::text[], ${entries.map((entry) => entry.targetId)}::text[],
      ${entries.map((entry) => JSON.stringify(entry.details ?? {}))}::text[]
    ) as e (org_id, id, action, actor_kind, user_id, credential, address, target_id, details)`

const userOf = (actor: Actor): UserId | null => (actor.kind === 'operator' ? null : actor.userId)
const credentialOf = (actor: Actor): string | null => (actor.kind === 'key' ? actor.keyId : actor.tokenId)

/** What is null or false does not limit the list. */
export type AuditFilter = {
  action: AuditAction | null
  userId: UserId | null
  keyId: KeyId | null
  isOperator: boolean
  since: Date | null
  until: Date | null
}

/**
 * The time in an id is that of the node, and `at` that of PostgreSQL. Their clocks differ by less than a day, so only ids of the
 * asked time and a day around it are read.
 */
const clockMs = 86_400_000
const idAt = (ms: number): string => idFloor('aud', Math.max(0, ms))
const afterAllIds = 'aud_~'

/**
 * Newest first. Each filter is a part of the statement only if it is asked for: each combination is prepared on its own, and so
 * reads its index in order. One statement for all took 200 ms where an action is rare among 200,000 entries; these take 1 ms.
 */
export const listAudit = (
  db: Database,
  orgId: OrgId,
  { action, userId, keyId, isOperator, since, until }: AuditFilter,
  { before, limit }: PageRequest,
) => db<AuditRow[]>`
  select id, at, action, actor_kind, user_id, credential, address, target_id, details
  from keyhook.audit_entries
  where org_id = ${orgId} and id < ${before ?? afterAllIds}
    and id >= ${since === null ? '' : idAt(since.getTime() - clockMs)}
    and id < ${until === null ? afterAllIds : idAt(until.getTime() + clockMs)}
    and (${since}::timestamptz is null or at >= ${since})
    and (${until}::timestamptz is null or at < ${until})
    ${action === null ? db`` : db`and action = ${action}`}
    ${userId === null ? db`` : db`and user_id = ${userId}`}
    ${keyId === null ? db`` : db`and actor_kind = 'key' and credential = ${keyId}`}
    ${isOperator ? db`and actor_kind = 'operator'` : db``}
  order by id desc
  limit ${limit}`
