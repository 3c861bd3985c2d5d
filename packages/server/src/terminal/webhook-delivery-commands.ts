import type { Delivery, Recovery } from '@keyhook/client'
import type { Command } from 'commander'
import { customerCommand, inSession } from './customer-command.ts'
import { momentOption } from './durations.ts'
import { limitDefault, pageSize, printList } from './list-output.ts'
import { waitFor } from './progress.ts'
import type { SessionOptions } from './session.ts'
import { statusText } from './style.ts'
import { type Column, shortTime } from './table.ts'

const columns: Column<Delivery>[] = [
  { title: 'STARTED (UTC)', of: ({ started_at }) => shortTime(started_at) },
  { title: 'EVENT', of: ({ event_type }) => event_type, mayShrink: true },
  { title: 'TRY', of: ({ attempt }) => attempt },
  { title: 'STATUS', of: ({ status }) => status, style: statusText },
  { title: 'ANSWER', of: ({ response, error }) => error?.code ?? response?.status ?? null, mayShrink: true },
  { title: 'ID', of: ({ id }) => id },
]

/** Sending to one webhook: test events, what was sent, and sending it again. */
export function addWebhookDeliveryCommands(webhooks: Command): void {
  customerCommand(
    webhooks,
    'test <webhook>',
    'Send a sample event to this webhook alone',
    'npx keyhook webhooks test wh_… --event database.created --wait',
  )
    .option('--event <type>', 'Which sample; the first type of the webhook without it')
    .option('--wait', 'Wait for the first answer; a failure is exit code 1')
    .action(
      inSession(async ({ client, output }, options: SessionOptions & { event?: string; wait?: true }, id: string) => {
        const event_type = options.event ?? (await client.webhooks.get(id)).event_types[0]!
        const sent = await client.webhooks.test(id, { event_type })
        if (!options.wait)
          return output.result(sent, `Sent ${sent.event_id}. What came of it: npx keyhook webhooks deliveries ${id}`)
        const event = await waitFor(
          () => client.events.get(sent.event_id),
          (one) => one.delivered_to[0]?.attempts.some(({ status }) => status !== 'sending') ?? false,
          () => ({ label: 'Waiting for the endpoint' }),
        )
        const { status, response_status, error_code } = event.delivered_to[0]!.attempts[0]!
        if (status !== 'succeeded') process.exitCode = 1
        output.result(event, `The endpoint ${answerText(status, response_status, error_code)}.`)
      }),
    )
  customerCommand(
    webhooks,
    'deliveries <webhook>',
    'List every delivery attempt, newest first',
    'npx keyhook webhooks deliveries wh_… --limit 10',
  )
    .option('--limit <n>', 'How many, or "all"', String(limitDefault))
    .action(
      inSession(async ({ client, output }, options: SessionOptions & { limit: string }, id: string) => {
        const list = client.webhooks.deliveries(id, { limit: pageSize(options.limit) })
        await printList(output, options, list, columns, 'Nothing was sent to this webhook yet.')
      }),
    )
  customerCommand(
    webhooks,
    'redeliver <webhook> <delivery>',
    'Send the event of a delivery attempt again',
    'npx keyhook webhooks redeliver wh_… dlv_…',
  ).action(
    inSession(async ({ client, output }, _options: SessionOptions, id: string, delivery: string) => {
      output.result(await client.webhooks.redeliver(id, delivery), `The event of ${delivery} is sent again now.`)
    }),
  )
  addRecover(webhooks)
}

function answerText(status: string, code: number | null, error: string | null): string {
  if (status === 'succeeded') return `accepted the test event (${code})`
  if (code === 401 || code === 403)
    return `refused the test event (${code}). A wrong secret is the usual reason: verify with the secret of this webhook`
  return `did not accept the test event (${code ?? error ?? status})`
}

type RecoverOptions = SessionOptions & { since: string; until?: string; dryRun?: true; wait?: true }

function addRecover(webhooks: Command): void {
  customerCommand(
    webhooks,
    'recover <webhook>',
    'Send everything again that never arrived in a time range',
    'npx keyhook webhooks recover wh_… --since 2h --dry-run',
    'npx keyhook webhooks recover wh_… --since 2026-11-17T12:00:00Z --wait',
  )
    .requiredOption('--since <time>', 'From when on: a time, or a duration before now such as 2h')
    .option('--until <time>', 'Until when; now without it')
    .option('--dry-run', 'Only count what would be sent')
    .option('--wait', 'Wait until everything is in line')
    .action(
      inSession(async ({ client, output }, options: RecoverOptions, id: string) => {
        const since = momentOption('--since', options.since)
        const range = { since, ...(options.until && { until: momentOption('--until', options.until) }) }
        if (options.dryRun) {
          const counted = await client.webhooks.recover(id, { ...range, dry_run: true })
          return output.result(counted, `${counted.matching} would be sent again.`)
        }
        const started = await client.webhooks.recover(id, range)
        if (!options.wait) return output.result(started, `${started.matching} are sent again (recovery ${started.id}).`)
        const recovery = await waitFor(
          () => client.webhooks.recovery(id, started.id!),
          (one: Recovery) => one.status === 'finished',
          ({ redelivered }) => ({ label: 'In line', done: redelivered, total: started.matching }),
        )
        output.result(recovery, `${recovery.redelivered} are sent again.`)
      }),
    )
}
