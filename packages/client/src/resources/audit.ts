import type { Api, ListOptions } from '../api.ts'
import type { List } from '../list.ts'

export type AuditAction =
  | 'organization.created'
  | 'organization.opened'
  | 'organization.renamed'
  | 'organization.key_lifetime_set'
  | 'organization.quotas_set'
  | 'organization.webhook_suspension_set'
  | 'member.invited'
  | 'invitation.withdrawn'
  | 'member.added'
  | 'member.role_changed'
  | 'member.removed'
  | 'service_member.created'
  | 'user.removed'
  | 'user.deleted'
  | 'user.subject_pinned'
  | 'user.verified'
  | 'user.passkey_added'
  | 'user.passkey_removed'
  | 'key.created'
  | 'key.updated'
  | 'key.rotated'
  | 'key.revoked'
  | 'key.leaked'
  | 'webhook.created'
  | 'webhook.updated'
  | 'webhook.paused'
  | 'webhook.resumed'
  | 'webhook.secret_rotated'
  | 'webhook.secret_switched'
  | 'webhook.deleted'
  | 'webhook.tested'
  | 'delivery.redelivered'
  | 'webhook.recovered'
  | 'event.reported'
  | 'database.created'
  | 'database.schedule_changed'
  | 'database.storage_limit_changed'
  | 'database.deleted'
  | 'database.moved'
  | 'database.lost'
  | 'backup.created'
  | 'backup.cancelled'
  | 'backup.deleted'
  | 'restore.created'
  | 'invoice.issued'
  | 'invoice.paid'

export type AuditEntry = {
  id: string
  at: string
  action: AuditAction
  actor: {
    kind: 'key' | 'login' | 'operator'
    user_id: string | null
    credential: string | null
    address: string | null
    /** The name of the user, or the email address of one without a name; null for the operator. */
    name: string | null
    /** The name and the prefix of the API key; null without one. */
    key_name: string | null
  }
  target_id: string
  /** What people call the target; null if nothing is known of it. */
  target_name: string | null
  details: Record<string, unknown>
}

export type AuditFilter = {
  action?: AuditAction | undefined
  /** The id of a user or of an API key, or `operator`. */
  actor?: string | undefined
  /** Entries from this time on (RFC 3339). */
  since?: string | undefined
  /** Entries before this time. */
  until?: string | undefined
}

export const audit = (api: Api) => ({
  /** Every change in the organization, newest first. */
  list: ({ action, actor, since, until, ...options }: ListOptions & AuditFilter = {}): List<AuditEntry> =>
    api.list(api.platform(options, 'audit-log'), options, { action, actor, since, until }),
})
