import type { Notice } from '../notices.ts'
import { type Content, plain, quoted } from './content.ts'

type Told = { title: string; text: string; path: string; label: string }

const day = (time: Date | string): string => `${new Date(time).toISOString().slice(0, 16).replace('T', ' ')} UTC`
const size = (bytes: number): string => `${(bytes / 1024 ** 3).toFixed(1)} GiB`
const days = (count: number): string => (count === 1 ? '1 day' : `${count} days`)

const webhookPath = ({ webhookId }: { webhookId: string }) => `/webhooks/${webhookId}`

/** Times are texts here: a notice has been JSON in the queue. */
function tell(notice: Notice): Told {
  switch (notice.kind) {
    case 'webhook.failing':
      return {
        title: 'A webhook fails',
        text: `The webhook ${quoted(notice.url)} has failed since ${day(notice.since)}${notice.error === null ? '' : `: ${plain(notice.error)}`}. Its deliveries are retried.`,
        path: webhookPath(notice),
        label: 'Open the webhook',
      }
    case 'webhook.suspended':
      return {
        title: 'A webhook was suspended',
        text: `The webhook ${quoted(notice.url)} has failed since ${day(notice.since)}. Its deliveries wait, ${notice.waiting} so far, and one is tried every hour. The first success sends the others.`,
        path: webhookPath(notice),
        label: 'Open the webhook',
      }
    case 'webhook.recovered':
      return {
        title: 'A webhook works again',
        text: `The webhook ${quoted(notice.url)}, which had failed since ${day(notice.since)}, accepts deliveries again.`,
        path: webhookPath(notice),
        label: 'Open the webhook',
      }
    case 'key.expiring':
      return {
        title: `An API key expires in ${days(notice.daysLeft)}`,
        text: `The API key ${quoted(notice.name)} (${notice.keyPrefix}…) expires at ${day(notice.expiresAt)}. Programs that use it are refused from then on. Rotate it before.`,
        path: '/keys',
        label: 'Open the API keys',
      }
    case 'key.leaked':
      return {
        title: 'A leaked API key was revoked',
        text: `The API key ${quoted(notice.name)} (${notice.keyPrefix}…) was found in public${notice.foundAt === null ? '' : ` at ${plain(notice.foundAt)}`} and was revoked.${notice.alsoRevoked > 0 ? ` ${notice.alsoRevoked} more keys that it had created were revoked with it.` : ''} Look in the audit log for what was done with it.`,
        path: '/audit',
        label: 'Open the audit log',
      }
    case 'backup.failed':
      return {
        title: 'A backup failed',
        text: `A backup of the database ${quoted(notice.name)} failed: ${plain(notice.problem)}`,
        path: `/databases/${notice.databaseId}`,
        label: 'Open the database',
      }
    case 'database.nearly_full':
      return {
        title: 'A database is nearly full',
        text: `The database ${quoted(notice.name)} uses ${size(notice.usedBytes)} of its storage limit of ${size(notice.limitBytes)}. At 95 % it becomes read-only. Delete data, or ask for a higher limit.`,
        path: `/databases/${notice.databaseId}`,
        label: 'Open the database',
      }
  }
}

type Notices = {
  organization: string
  notices: readonly Notice[]
  /** How many there are beside those. */
  more: number
  /** Further ones in this hour are left out. */
  isLast: boolean
}

export function noticeMail({ organization, notices, more, isLast }: Notices, orgUrl: string): Content {
  const told = notices.map(tell)
  const { title, path, label } = told[0]!
  const total = notices.length + more
  const paragraphs = told.map(({ text }) => text)
  if (more > 0) paragraphs.push(`There are ${more} more.`)
  if (isLast)
    paragraphs.push('You have got many of these mails: others in this hour are left out. The console shows everything.')
  return {
    subject: `${title}${total > 1 ? `, and ${total - 1} more` : ''} (${plain(organization, 60)})`,
    paragraphs,
    link: { label, url: orgUrl + path, note: null },
    footer: `You get this mail as an owner of the organization ${quoted(organization)}.`,
  }
}
