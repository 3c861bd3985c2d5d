import type { Transaction } from '../db/database.ts'
import type { OrgId } from '../lib/ids.ts'
import { countMail } from './limits.ts'
import type { Notice, QueuedNotices } from './notices.ts'
import { listFailingWebhooks, organizationOfOwner } from './queue-sql.ts'
import type { Compose } from './sender.ts'
import { noticeMail } from './templates/notices.ts'

/**
 * Nothing for somebody who is no owner any more, and no more than `perAddressMax` about webhooks, keys, backups or databases in an
 * hour: a broken receiver floods nobody, and hides no leaked key.
 */
export const composeNotice =
  (perAddressMax: number): Compose =>
  async (tx, mail, { isFirst, url }) => {
    const orgId = mail.org_id!
    const organization = await organizationOfOwner(tx, orgId, mail.user_id!)
    if (organization === null) return null
    const { notices: queued, more } = mail.data as QueuedNotices
    const notices = await withoutOutdated(tx, orgId, queued)
    if (notices.length === 0) return null
    const group = notices[0]!.kind.split('.')[0]!
    const count = isFirst ? await countMail(tx, `notice:${group}`, mail.address, perAddressMax) : 0
    if (count === null) return null
    return noticeMail({ organization, notices, more, isLast: count === perAddressMax }, url(`/${orgId}`))
  }

/** A mail that was late must not say that a webhook fails after another one has said that it works again, or the reverse. */
async function withoutOutdated(tx: Transaction, orgId: OrgId, notices: readonly Notice[]): Promise<Notice[]> {
  const failing = await listFailingWebhooks(
    tx,
    orgId,
    notices.flatMap((notice) => ('webhookId' in notice ? [notice.webhookId] : [])),
  )
  return notices.filter(
    (notice) => !('webhookId' in notice) || failing.has(notice.webhookId) === (notice.kind !== 'webhook.recovered'),
  )
}
