import type { Api, ListOptions } from '../api.ts'
import type { List } from '../list.ts'

export type AuditAction =
  | 'organization.created'
  | 'organization.opened'
  | 'member.invited'
  | 'invitation.withdrawn'
  | 'member.added'
  | 'member.role_changed'
  | 'member.removed'
  | 'user.removed'
  | 'user.subject_pinned'
  | 'key.created'
  | 'key.revoked'
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
  | 'database.deleted'
  | 'backup.created'
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
  }
  target_id: string
  details: Record<string, unknown>
}

export const audit = (api: Api) => ({
  /** Every change in the organization, newest first. */
  list: (options: ListOptions = {}): List<AuditEntry> => api.list(api.platform(options, 'audit-log'), options),
})
