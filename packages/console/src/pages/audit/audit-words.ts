import type { AuditAction } from '@keyhook/client'

/** Each action in words, in the order of the filter. */
export const actionTexts: Record<AuditAction, string> = {
  'organization.created': 'Organization created',
  'organization.opened': 'Opened by the operator',
  'organization.renamed': 'Organization renamed',
  'member.invited': 'Member invited',
  'invitation.withdrawn': 'Invitation withdrawn',
  'member.added': 'Member added',
  'member.role_changed': 'Role changed',
  'member.removed': 'Member removed',
  'user.removed': 'User removed',
  'user.subject_pinned': 'Sign-in of a user pinned',
  'user.verified': 'Address of a user confirmed',
  'key.created': 'API key created',
  'key.revoked': 'API key revoked',
  'webhook.created': 'Webhook created',
  'webhook.updated': 'Webhook changed',
  'webhook.paused': 'Webhook paused',
  'webhook.resumed': 'Webhook resumed',
  'webhook.secret_rotated': 'Webhook secret rotated',
  'webhook.secret_switched': 'Webhook secret switched',
  'webhook.deleted': 'Webhook deleted',
  'webhook.tested': 'Test event sent',
  'webhook.recovered': 'Deliveries recovered',
  'delivery.redelivered': 'Event redelivered',
  'event.reported': 'Event reported',
  'database.created': 'Database created',
  'database.schedule_changed': 'Backup schedule changed',
  'database.storage_limit_changed': 'Storage limit changed',
  'database.deleted': 'Database deleted',
  'database.moved': 'Database moved to another node',
  'database.lost': 'Database lost with its node',
  'backup.created': 'Backup started',
  'backup.cancelled': 'Backup cancelled',
  'backup.deleted': 'Backup deleted',
  'restore.created': 'Restore started',
  'invoice.issued': 'Invoice issued',
  'invoice.paid': 'Invoice paid',
}

/** An action of a newer server is shown by its name. */
export const actionText = (action: string): string => (actionTexts as Record<string, string>)[action] ?? action
