import type { Id, KeyId, OrgId, UserId } from '../kernel/ids.ts'

/** Every change that is recorded in the audit log. */
export const auditActions = [
  'organization.created',
  'organization.opened',
  'organization.renamed',
  'member.invited',
  'invitation.withdrawn',
  'member.added',
  'member.role_changed',
  'member.removed',
  'user.removed',
  'user.subject_pinned',
  'user.verified',
  'key.created',
  'key.revoked',
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

/** The operator without a token: the command line, and changes made by settings. */
export const operator = { kind: 'operator', tokenId: null, address: null } as const satisfies Actor

export type AuditEntry = {
  orgId: OrgId
  action: AuditAction
  actor: Actor
  targetId: string
  details?: Record<string, string | number | null | string[]>
}

export type AuditEntryId = Id<'aud'>
