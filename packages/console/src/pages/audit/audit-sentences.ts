import type { AuditAction, AuditEntry } from '@keyhook/client'
import { minuteText } from '../../components/time-axis.ts'
import { actionText } from './audit-words.ts'

type Details = Record<string, unknown>

const text = (value: unknown): string => (typeof value === 'string' || typeof value === 'number' ? String(value) : '…')

/** What the actor did, with `{target}` where the name of the target belongs. */
export const sentences: Record<AuditAction, string | ((details: Details) => string)> = {
  'organization.created': 'created the organization {target}',
  'organization.opened': 'opened the organization to read',
  'organization.renamed': ({ from, to }) => `renamed the organization from “${text(from)}” to “${text(to)}”`,
  'organization.key_lifetime_set': ({ to }) =>
    to === null ? 'removed the limit for new API keys' : `limited new API keys to ${text(to)} days`,
  'organization.quotas_set': 'changed the quotas of the organization',
  'organization.webhook_suspension_set': ({ to }) => {
    if (to === null) return 'left it to the operator when webhooks that fail are suspended'
    if (to === 0) return 'set that webhooks that fail are never suspended'
    return `set that webhooks are suspended after ${to === 1 ? 'an hour' : `${text(to)} hours`} of failing`
  },
  'member.invited': ({ role }) => `invited {target} as ${text(role)}`,
  'invitation.withdrawn': 'withdrew the invitation of {target}',
  'member.added': ({ to, invitation }) =>
    invitation === undefined ? `added {target} as ${text(to)}` : `joined with an invitation as ${text(to)}`,
  'member.role_changed': ({ from, to }) => `changed the role of {target} from ${text(from)} to ${text(to)}`,
  'member.removed': 'removed the member {target}',
  'service_member.created': ({ role }) => `created {target} as ${text(role)}`,
  'user.removed': 'removed the user {target}',
  'user.deleted': 'deleted the user {target}',
  'user.subject_pinned': 'tied the user {target} to an account of the single sign-on',
  'user.passkey_added': 'added a passkey',
  'user.passkey_removed': 'removed a passkey',
  'user.verified': 'confirmed the address of {target}',
  'key.created': ({ acts_as }) => `created the API key {target}${acts_as === undefined ? '' : ' for a service member'}`,
  'key.updated': 'changed the API key {target}',
  'key.rotated': 'rotated the API key {target}',
  'key.revoked': 'revoked the API key {target}',
  'key.leaked': 'reported that the API key {target} was found in public',
  'webhook.created': 'created the webhook {target}',
  'webhook.updated': 'changed the webhook {target}',
  'webhook.paused': ({ until }) =>
    `paused the webhook {target}${typeof until === 'string' ? ` until ${minuteText(Date.parse(until))}` : ''}`,
  'webhook.resumed': 'resumed the webhook {target}',
  'webhook.secret_rotated': 'rotated the secret of the webhook {target}',
  'webhook.secret_switched': 'switched the webhook {target} to its new secret',
  'webhook.deleted': 'deleted the webhook {target}',
  'webhook.tested': ({ event_type }) => `sent a test event ${text(event_type)} to the webhook {target}`,
  'webhook.recovered': 'sent events again that had not arrived at the webhook {target}',
  'delivery.redelivered': 'sent an event again to the webhook {target}',
  'event.reported': ({ events }) =>
    typeof events === 'number' && events > 1 ? `reported ${text(events)} events` : 'reported the event {target}',
  'database.created': 'created the database {target}',
  'database.schedule_changed': 'changed the backup schedule of the database {target}',
  'database.storage_limit_changed': 'changed the storage limit of the database {target}',
  'database.deleted': 'deleted the database {target}',
  'database.moved': 'moved the database {target} to another node',
  'database.lost': 'gave up the database {target}, whose node is lost',
  'backup.created': 'started a backup of the database {target}',
  'backup.cancelled': 'cancelled a backup of the database {target}',
  'backup.deleted': 'deleted a backup of the database {target}',
  'restore.created': 'started a restore into the new database {target}',
  'invoice.issued': 'issued the invoice of {target}',
  'invoice.paid': 'recorded the payment of the invoice of {target}',
}

export type Sentence = { before: string; target: string | null; after: string }

/** The sentence without its subject. An action of a newer server is shown by its name. */
export function sentenceOf({ action, details, target_id, target_name }: AuditEntry): Sentence {
  const words = sentences[action] ?? `${actionText(action)}: {target}`
  const [before, after] = (typeof words === 'string' ? words : words(details)).split('{target}')
  return { before: before!, target: after === undefined ? null : (target_name ?? target_id), after: after ?? '' }
}

/** Who did it: "The schedule" for what nobody asked for. */
export function actorOf({ actor, details }: AuditEntry): string {
  if (actor.user_id !== null) return actor.name ?? actor.user_id
  return details.origin === 'scheduled' ? 'The schedule' : 'The operator'
}

export type AuditGroup = [newest: AuditEntry, ...AuditEntry[]]

const sameness = ({ action, actor, details }: AuditEntry): string =>
  // The sentence names the type of a test event, and the number of reported ones.
  [
    action,
    details.event_type,
    details.events,
    actor.kind,
    actor.user_id,
    actor.kind === 'key' ? actor.credential : '',
  ].join(' ')

/** Entries that follow each other and say the same of the same actor, newest first as they are. */
export function grouped(entries: readonly AuditEntry[]): AuditGroup[] {
  const groups: AuditGroup[] = []
  for (const entry of entries) {
    const last = groups.at(-1)
    if (last !== undefined && sameness(last[0]!) === sameness(entry) && actorOf(last[0]!) === actorOf(entry))
      last.push(entry)
    else groups.push([entry])
  }
  return groups
}
