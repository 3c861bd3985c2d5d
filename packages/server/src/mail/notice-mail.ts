import { countMail } from './limits.ts'
import type { QueuedNotices } from './notices.ts'
import { organizationOfOwner } from './queue-sql.ts'
import type { Compose } from './sender.ts'
import { noticeMail } from './templates/notices.ts'

/** Nothing for somebody who is no owner any more, and no more than `perAddressMax` in an hour: a broken receiver floods nobody. */
export const composeNotice =
  (perAddressMax: number): Compose =>
  async (tx, mail, { isFirst, url }) => {
    const orgId = mail.org_id!
    const organization = await organizationOfOwner(tx, orgId, mail.user_id!)
    if (organization === null) return null
    const count = isFirst ? await countMail(tx, 'notice', mail.address, perAddressMax) : 0
    if (count === null) return null
    const { notices, more } = mail.data as QueuedNotices
    return noticeMail({ organization, notices, more, isLast: count === perAddressMax }, url(`/${orgId}`))
  }
