import type { PublishingTransaction, Transact, Transaction } from '../db/database.ts'
import { publishOptional } from '../delivery/optional-events.ts'
import { probeMs, suspensionMs } from '../delivery/retry-schedule.ts'
import { endSuspension, findAnswering, suspendFailing } from '../delivery/suspension-sql.ts'
import type { OrgId, WebhookId } from '../lib/ids.ts'
import { isoTime } from '../lib/time.ts'
import { type Notice, notifyOwners } from '../mail/notices.ts'

/** So long a suspended webhook whose receiver has answered waits until its deliveries are sent. */
const everyMs = 2_000

export type WebhookHealthWorker = {
  /** Suspends what has failed for long enough, ends suspensions, and tells of every change. */
  run(): Promise<void>
  close(): Promise<void>
}

/**
 * Every node of the API does it. The statement that settles an attempt writes a change down, because it serves many receivers and
 * must not wait for an organization's event counter. Here the change is deleted in the transaction that publishes its event and queues
 * its mails: whatever is killed, and however many nodes run, there is one message for it.
 */
export function createWebhookHealth(deps: {
  transact: Transact
  suspendAfterHours: number
  onError: (error: unknown) => void
}): WebhookHealthWorker {
  const closing = new AbortController()

  async function repeat(work: (tx: PublishingTransaction) => Promise<number>): Promise<void> {
    while (!closing.signal.aborted && (await deps.transact(work)) > 0) {}
  }

  async function resume(laneId: number): Promise<void> {
    const end = (inOrder: boolean) =>
      deps.transact(async (tx) => {
        const orgId = await endSuspension(tx, laneId, inOrder)
        if (orgId !== null) tx.hintAfterCommit(orgId)
      })
    await end(true).catch((error) => {
      deps.onError(error)
      // Too many retries for one transaction: late is better than never, and others must not wait.
      return end(false)
    })
  }

  async function run(): Promise<void> {
    await repeat((tx) => suspendFailing(tx, { afterHours: deps.suspendAfterHours, probeMs, suspensionMs }))
    for (const laneId of await deps.transact(findAnswering)) await resume(laneId)
    await repeat(tellOfChanges)
  }

  let running: Promise<void> = Promise.resolve()
  const timer = setInterval(() => {
    running = running.then(run).catch(deps.onError)
  }, everyMs)
  timer.unref()

  return {
    run,
    async close() {
      clearInterval(timer)
      closing.abort()
      await running
    },
  }
}

/** Returns how many changes it took, all of one organization. */
async function tellOfChanges(tx: PublishingTransaction): Promise<number> {
  const changes = await takeChanges(tx)
  const existing = changes.filter(({ deleted }) => !deleted)
  if (existing.length === 0) return changes.length
  const orgId = existing[0]!.org_id
  await notifyOwners(tx, orgId, existing.map(noticeOf))
  for (const change of existing) await publishChange(tx, change)
  tx.hintAfterCommit(orgId)
  return changes.length
}

type ChangeRow = {
  org_id: OrgId
  webhook_id: WebhookId
  kind: 'failing' | 'suspended' | 'recovered'
  since: Date
  error: string | null
  url: string
  deleted: boolean
  waiting: number
}

const changesMax = 100
const waitingCounted = 100_000

/**
 * The oldest change of an organization stands for all of them: while another node has it, the later ones are left alone, so that they
 * are told in order.
 */
async function takeChanges(tx: Transaction): Promise<ChangeRow[]> {
  const rows = await tx<ChangeRow[]>`
    with first as materialized (
      select c.org_id from keyhook.webhook_changes c
      where c.id in (select min(id) from keyhook.webhook_changes group by org_id)
      order by c.id limit 1 for update skip locked
    ), taken as (
      delete from keyhook.webhook_changes c
      where c.id in (
        select n.id from keyhook.webhook_changes n join first f on f.org_id = n.org_id order by n.id limit ${changesMax}
      )
      returning c.*
    )
    select t.*, w.url, w.deleted_at is not null as deleted, case when t.kind <> 'suspended' then 0 else (
      select count(*)::int from (
        (select from keyhook.deliveries d where d.lane_id = l.id and d.event_seq > l.cursor_seq limit ${waitingCounted})
        union all
        (select from keyhook.retries r where r.lane_id = l.id limit ${waitingCounted})
        limit ${waitingCounted}
      ) waiting
    ) end as waiting
    from taken t join keyhook.webhooks w on w.org_id = t.org_id and w.id = t.webhook_id join keyhook.lanes l on l.id = w.lane_id
    order by t.id`
  return [...rows]
}

function noticeOf({ kind, webhook_id: webhookId, since, error, waiting, ...row }: ChangeRow): Notice {
  const webhook = { webhookId, url: withoutQuery(row.url), since }
  if (kind === 'failing') return { kind: 'webhook.failing', ...webhook, error }
  if (kind === 'suspended') return { kind: 'webhook.suspended', ...webhook, waiting }
  return { kind: 'webhook.recovered', ...webhook }
}

function publishChange(tx: PublishingTransaction, change: ChangeRow): Promise<void> {
  const { org_id: orgId, webhook_id: except, kind, since, error, waiting } = change
  const data = { webhook_id: except, url: withoutQuery(change.url), failing_since: isoTime(since) }
  if (kind === 'failing')
    return publishOptional(tx, { orgId, except, type: 'webhook.failing', data: { ...data, error } })
  if (kind === 'suspended') {
    return publishOptional(tx, { orgId, except, type: 'webhook.suspended', data: { ...data, waiting } })
  }
  return publishOptional(tx, { orgId, except, type: 'webhook.recovered', data })
}

/** The query may hold a secret of the receiver's. */
const withoutQuery = (url: string): string => url.replace(/\?.*$/s, '')
