import type { Database, Executor, Transaction } from '../db/database.ts'
import type { OrgId, UserId, WebhookId } from '../lib/ids.ts'

export type MailKind = 'invitation' | 'confirmation' | 'sign_in' | 'notice'

/** Longer than a failover or a restart: without a sender for so long, mail counts as turned off. */
const senderMinutes = 10

/** Whether a process sends mail, so that a mail that is queued now will be sent. */
export const isMailOn = (db: Executor) =>
  db`
    select 1 from keyhook.mail_senders
    where seen_at > now() - make_interval(mins => ${senderMinutes})`.exists()

export const announceSender = async (db: Database): Promise<void> => {
  await db`
    insert into keyhook.mail_senders (seen_at) values (now())
    on conflict (is_only) do update set seen_at = excluded.seen_at`
}

type NewMail = {
  kind: Exclude<MailKind, 'notice'>
  orgId: OrgId | null
  userId: UserId | null
  address: string
  data?: object
  /** After this it is given up. */
  minutes: number
}

/** Changes nothing while no process sends mail. */
export const queueMail = async (db: Executor, mail: NewMail): Promise<void> => {
  await db`
    insert into keyhook.mails (org_id, user_id, address, kind, data, send_by)
    select ${mail.orgId}::text, ${mail.userId}::text, ${mail.address}::text, ${mail.kind}::text,
      ${JSON.stringify(mail.data ?? {})}::jsonb, now() + make_interval(mins => ${mail.minutes})
    from keyhook.mail_senders where seen_at > now() - make_interval(mins => ${senderMinutes})`
}

const noticeHours = 24

/** A mail to each owner who is a person with a confirmed address. `data` is what `composeNotice` reads. */
export const queueForOwners = async (tx: Transaction, orgId: OrgId, data: object): Promise<void> => {
  await tx`
    insert into keyhook.mails (org_id, user_id, address, kind, data, send_by)
    select m.org_id, u.id, u.email, 'notice', ${JSON.stringify(data)}::jsonb, now() + make_interval(hours => ${noticeHours})
    from keyhook.mail_senders s
    join keyhook.memberships m on m.org_id = ${orgId} and m.role = 'owner'
    join keyhook.users u on u.id = m.user_id and u.verified_by is not null and not u.is_service
    where s.seen_at > now() - make_interval(mins => ${senderMinutes})`
}

/** The name of the organization, if the user is still an owner whom the mail may tell about it. */
export const organizationOfOwner = async (tx: Transaction, orgId: OrgId, userId: UserId): Promise<string | null> => {
  const [row] = await tx<{ name: string }[]>`
    select o.name from keyhook.memberships m join keyhook.organizations o on o.id = m.org_id
    where m.org_id = ${orgId} and m.user_id = ${userId} and m.role = 'owner'`
  return row?.name ?? null
}

export const listFailingWebhooks = async (
  tx: Transaction,
  orgId: OrgId,
  ids: readonly WebhookId[],
): Promise<Set<WebhookId>> => {
  const rows = await tx<{ webhook_id: WebhookId }[]>`
    select webhook_id from keyhook.lanes
    where org_id = ${orgId} and webhook_id = any (${ids}::text[]) and failing_since is not null`
  return new Set(rows.map((row) => row.webhook_id))
}

export type QueuedMail = {
  id: string
  org_id: OrgId | null
  user_id: UserId | null
  address: string
  kind: MailKind
  data: Record<string, unknown>
  key_id: string
  attempts: number
  last_error: string | null
  is_late: boolean
}

export const isMailDue = (db: Database) => db`select 1 from keyhook.mails where due_at <= now() limit 1`.exists()

/** Longer than an attempt may take. Then another process tries. */
const claimSeconds = 120

/** Takes the next mail that is due, for one attempt. Null if there is none, or other processes have them. */
export const claimMail = (tx: Transaction, keyId: string) =>
  tx<QueuedMail[]>`
    update keyhook.mails m
    set attempts = m.attempts + 1, due_at = now() + make_interval(secs => ${claimSeconds}), key_id = coalesce(m.key_id, ${keyId})
    from (
      select id from keyhook.mails where due_at <= now()
      order by (kind = 'notice'), due_at limit 1 for update skip locked
    ) as due
    where m.id = due.id
    returning m.id, m.org_id, m.user_id, m.address, m.kind, m.data, m.key_id, m.attempts, m.last_error,
      m.send_by < now() as is_late`.first()

/** Compares the attempt: another process may have taken the mail over. */
export const deleteMail = async (db: Executor, { id, attempts }: QueuedMail): Promise<void> => {
  await db`delete from keyhook.mails where id = ${id} and attempts = ${attempts}`
}

export const retryMail = async (
  db: Executor,
  { id, attempts }: QueuedMail,
  { error, seconds }: { error: string; seconds: number },
): Promise<void> => {
  await db`
    update keyhook.mails set last_error = ${error}, due_at = least(now() + make_interval(secs => ${seconds}), send_by)
    where id = ${id} and attempts = ${attempts}`
}

/** What no process will send any more, because the last one with a mail server is gone, and counts of hours that are over. */
export const deleteOldMails = async (db: Database): Promise<void> => {
  await db`delete from keyhook.mails where send_by < now() - interval '1 hour'`
  await db`delete from keyhook.confirmation_links where expires_at < now()`
  await db`delete from keyhook.mail_counts where hour < floor(extract(epoch from now()) / 3600)`
}
