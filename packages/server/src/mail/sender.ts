import { createHmac } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { Database, Transaction } from '../db/database.ts'
import { isMailAddress } from '../lib/mail-server.ts'
import type { MasterKeys } from '../lib/master-keys.ts'
import { secretHash } from '../lib/secrets.ts'
import {
  announceSender,
  claimMail,
  deleteMail,
  isMailDue,
  type MailKind,
  type QueuedMail,
  retryMail,
} from './queue-sql.ts'
import { isRefusedForGood, type Smtp, smtpProblem } from './smtp.ts'
import type { Content } from './templates/content.ts'

/** `secret` and `hash` are those of the link, if the mail has one: the same for every attempt. */
type MailContext = {
  secret: string
  hash: Buffer
  isFirst: boolean
  /** The host that people know, for texts. */
  server: string
  /** The address of a page of the console. */
  url(path: string): string
}

/** `to`: the address, where it is not that of the queue. */
type Composed = Content & { to?: string }

/** What the mail says now, in the transaction that takes it for an attempt; null: there is nothing to send any more. */
export type Compose = (tx: Transaction, mail: QueuedMail, context: MailContext) => Promise<Composed | null>

export type MailOutcome = 'sent' | 'failed' | 'given_up' | 'left_out'

/** Mails at a time of one process. */
const lanes = 3
const everyMs = 1_000
const announceMs = 60_000
/** PostgreSQL is away. */
const afterErrorMs = 10_000
const retrySeconds = { first: 15, max: 3_600 }

/** Derived from the master key: no row holds it, a retry has the same, and there is nothing to seal again under another key. */
function linkSecret(masterKeys: MasterKeys, { key_id: keyId, id }: QueuedMail): string | null {
  const key = masterKeys.derive('links in mails')[masterKeys.keyIds.indexOf(keyId)]
  return key === undefined ? null : createHmac('sha256', key).update(id).digest('base64url')
}

/**
 * Sends what is queued. Every process with a mail server does it; a mail that is taken is hidden from the others for the time of an
 * attempt. A process that ends between the answer of the server and its own note sends the mail a second time.
 */
export function createMailSender(deps: {
  db: Database
  masterKeys: MasterKeys
  smtp: Smtp
  publicUrl: string
  compose: Record<MailKind, Compose>
  log: Logger
  onOutcome(outcome: MailOutcome): void
}) {
  const { db, masterKeys, smtp, publicUrl, log } = deps
  const closing = new AbortController()
  const { signal } = closing

  function note(outcome: MailOutcome, mail: QueuedMail, error: string | null = null): void {
    deps.onOutcome(outcome)
    const { id: mailId, kind, org_id: orgId, user_id: userId, attempts } = mail
    const level = outcome === 'failed' || outcome === 'given_up' ? 'warn' : 'info'
    log[level]({ mailId, kind, orgId, userId, attempts, ...(error !== null && { error }) }, `mail.${outcome}`)
  }

  const take = () =>
    db.begin(async (tx): Promise<{ mail: QueuedMail; content: Composed | null } | null> => {
      const mail = await claimMail(tx, masterKeys.currentKeyId)
      if (mail === null) return null
      const secret = linkSecret(masterKeys, mail)
      if (mail.is_late || secret === null || !isMailAddress(mail.address)) return { mail, content: null }
      const context: MailContext = {
        secret,
        hash: secretHash(secret),
        isFirst: mail.attempts === 1,
        server: new URL(publicUrl).host,
        url: (path) => `${publicUrl}/console${path}`,
      }
      return { mail, content: await deps.compose[mail.kind](tx, mail, context) }
    })

  /** False if nothing is due. */
  async function sendNext(): Promise<boolean> {
    const taken = await take()
    if (taken === null) return false
    const { mail, content } = taken
    if (content === null) {
      await deleteMail(db, mail)
      note(mail.is_late ? 'given_up' : 'left_out', mail, mail.last_error)
      return true
    }
    try {
      await smtp.send({ id: mail.id, to: content.to ?? mail.address, content })
    } catch (error) {
      const problem = smtpProblem(error)
      if (isRefusedForGood(error)) {
        await deleteMail(db, mail)
        note('given_up', mail, problem)
      } else {
        const seconds = Math.min(retrySeconds.first * 2 ** (mail.attempts - 1), retrySeconds.max)
        await retryMail(db, mail, { error: problem, seconds })
        note('failed', mail, problem)
      }
      return true
    }
    await deleteMail(db, mail)
    note('sent', mail)
    return true
  }

  async function repeat(ms: number, work: () => Promise<void>): Promise<void> {
    while (!signal.aborted) {
      const pauseMs = await work().then(
        () => ms,
        (err) => {
          log.warn({ err }, 'mail.queue_not_read')
          return Math.max(ms, afterErrorMs)
        },
      )
      await sleep(pauseMs, undefined, { signal, ref: false }).catch(() => {})
    }
  }

  async function sendAll(): Promise<void> {
    // One small statement per second while there is nothing to do.
    while (!signal.aborted && (await isMailDue(db)) && (await sendNext())) {}
  }

  const running = [
    repeat(announceMs, () => announceSender(db)),
    ...Array.from({ length: lanes }, () => repeat(everyMs, sendAll)),
  ]
  return {
    /** Waits for the mails that are being sent. */
    async close(): Promise<void> {
      closing.abort()
      await Promise.all(running)
    },
  }
}
