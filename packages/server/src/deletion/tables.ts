import type { Transaction } from '../db/database.ts'

/**
 * How the rows of an organization or of a user are found in a table. A statement takes `$1`, the id, and `$2`, how many rows at
 * most; it returns nothing and counts what it changed. A test fails for a table with such a column that is in no list.
 */
export type Erasure = { table: string; statement: string }

/** By physical place: one scan of an index for each batch, however the table is made. */
const batch = (table: string, condition: string): Erasure => ({
  table,
  statement: `delete from keyhook.${table} where ctid = any(array(select ctid from keyhook.${table} where ${condition} limit $2))`,
})

const byOrganization = (table: string): Erasure => batch(table, 'org_id = $1')

const lanes = 'lane_id = any(array(select w.lane_id from keyhook.webhooks w where w.org_id = $1))'
const byWebhook = (table: string): Erasure => batch(table, lanes)

const mention = (change: string, condition: string): Erasure => ({
  table: 'audit_entries',
  statement: `
    update keyhook.audit_entries set ${change} where ctid = any(array(
      select ctid from keyhook.audit_entries where org_id = $1 and ${condition} limit $3
    ))`,
})

const byUser = (table: string): Erasure => batch(table, 'user_id = $1')

/** An address that nobody has confirmed says nothing about its owner, whom others may invite. */
const byAddress = (table: string, column: string): Erasure =>
  batch(
    table,
    `lower(${column} collate "C") = (
      select lower(u.email collate "C") from keyhook.users u where u.id = $1 and u.verified_by is not null
    )`,
  )

/** Children before parents. What is in flight first: then nothing can be settled, and no attempt is added any more. */
export const organizationTables: readonly Erasure[] = [
  byWebhook('in_flight'),
  byWebhook('retries'),
  {
    // Of partitions, in which a place is not unique.
    table: 'attempts',
    statement: `
      delete from keyhook.attempts a using (select lane_id, id from keyhook.attempts where ${lanes} limit $2) old
      where a.lane_id = old.lane_id and a.id = old.id`,
  },
  byWebhook('earlier_urls'),
  byOrganization('lanes'),
  byOrganization('recoveries'),
  byOrganization('deliveries'),
  byOrganization('wakes'),
  byOrganization('events'),
  byOrganization('expired_events'),
  byOrganization('event_counters'),
  byOrganization('webhook_changes'),
  byOrganization('webhooks'),
  batch('request_counts', 'subject = $1 or subject in (select k.id from keyhook.api_keys k where k.org_id = $1)'),
  byOrganization('api_key_uses'),
  {
    // A key after those that were created with it.
    table: 'api_keys',
    statement: `
      delete from keyhook.api_keys where ctid = any(array(
        select k.ctid from keyhook.api_keys k
        where k.org_id = $1 and not exists (
          select from keyhook.api_keys child where child.org_id = k.org_id and child.created_by_key = k.id
        )
        limit $2
      ))`,
  },
  byOrganization('mails'),
  byOrganization('invitations'),
  byOrganization('memberships'),
  byOrganization('organization_quotas'),
  byOrganization('invoice_lines'),
  byOrganization('invoices'),
  byOrganization('audit_entries'),
  // The scope is "<organization>/<user>"; "0" is the character after "/".
  batch('idempotency_keys', `scope >= $1::text || '/' and scope < $1::text || '0'`),
  batch('idempotency_keys', `scope = 'operator' and strpos(concat(location, body), $1) > 0`),
]

/** A node erases these with the files of each database. */
export const databaseTables = [
  'restores',
  'backups',
  'wal_archives',
  'database_stats',
  'database_history',
  'database_usage',
  'databases',
] as const

/** Rows that are about the user and nobody else. */
export const userTables: readonly Erasure[] = [
  byUser('console_sessions'),
  byUser('console_links'),
  byUser('passkeys'),
  byUser('confirmation_links'),
  byUser('mails'),
  // Sign-in links and invitations name the address alone.
  byAddress('mails', 'address'),
  byUser('memberships'),
  // The table has a day of requests at most.
  batch(
    'idempotency_keys',
    `scope like '%/' || $1::text or (scope = 'operator' and strpos(concat(location, body), $1) > 0)`,
  ),
  byAddress('invitations', 'email'),
]

/** What the audit log of an organization knows about the user: `$1` is the organization, `$2` the user, `$3` the limit. The id stays. */
export const userMentions: readonly Erasure[] = [
  mention('address = null', 'user_id = $2 and address is not null'),
  mention(
    `details = details - 'email'`,
    `action = any(array['member.invited', 'invitation.withdrawn']) and lower((details ->> 'email') collate "C") = (
        select lower(u.email collate "C") from keyhook.users u
        where u.id = $2 and (u.verified_by is not null or u.invited_to = $1)
      )`,
  ),
  mention(
    `details = details - array['name', 'subject']`,
    `action = any(array['service_member.created', 'user.passkey_added', 'user.passkey_removed', 'user.subject_pinned'])
      and target_id = $2 and details ?| array['name', 'subject']`,
  ),
]

export const erase = async (tx: Transaction, { statement }: Erasure, values: readonly (string | number)[]) =>
  (await tx.unsafe(statement, values)).count
