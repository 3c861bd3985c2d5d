import { hash } from 'node:crypto'
import type { Executor } from '../db/database.ts'
import { Fault } from '../lib/faults.ts'

/** What counts together. Those that strangers or a flapping webhook cause do not use up what others need. */
export type Counted = 'sign_in' | 'sign_in_from' | 'confirmation' | 'invitation' | 'invitation_of' | `notice:${string}`

/** Counts one mail of this hour. Returns how many there are now; null if there were as many as allowed. */
export async function countMail(db: Executor, counted: Counted, subject: string, max: number): Promise<number | null> {
  // A hash: the table names nobody. Mail servers treat upper and lower case alike.
  const name = `${counted}:${hash('sha256', subject.toLowerCase(), 'base64url')}`
  const [row] = await db<{ count: number }[]>`
    insert into keyhook.mail_counts as c (hour, subject, count)
    values (floor(extract(epoch from now()) / 3600), ${name}, 1)
    on conflict (hour, subject) do update set count = c.count + 1 where c.count < ${max}
    returning count`
  return row?.count ?? null
}

export async function requireMailLeft(db: Executor, counted: Counted, subject: string, max: number): Promise<void> {
  if ((await countMail(db, counted, subject, max)) !== null) return
  throw new Fault('mail.limit_reached', {
    public: `At most ${max} of these mails are sent in an hour. Try again in the next hour.`,
    headers: { 'retry-after': String(3_600 - (Math.floor(Date.now() / 1_000) % 3_600)) },
  })
}

export const mailOff = (): Fault =>
  new Fault('mail.off', {
    public: 'This server sends no such mail.',
  })
