import type { AttemptStatus, Delivery, Recovery, SendErrorCode } from '@keyhook/client'
import { timestampOption } from '../arguments.ts'
import { OperationFailed } from '../output.ts'
import type { KeyhookCommand } from '../program.ts'
import { waitFor } from '../progress.ts'
import { customerCommand, type SessionOptions } from '../session.ts'
import { statusText } from '../style.ts'
import { type Column, shortTime } from '../table.ts'

const columns: Column<Delivery>[] = [
  { title: 'STARTED (UTC)', of: ({ started_at }) => shortTime(started_at) },
  { title: 'EVENT', of: ({ event_type }) => event_type, mayShrink: true },
  { title: 'ATTEMPT', of: ({ attempt }) => attempt },
  { title: 'STATUS', of: ({ status }) => status, style: statusText },
  { title: 'ANSWER', of: ({ response, error }) => outcomeOf(response?.status, error?.code), mayShrink: true },
  { title: 'ID', of: ({ id }) => id },
]

/** Of an answer that is no success the HTTP status says more than the code. */
export const outcomeOf = (status: number | null | undefined, code: string | null | undefined): string | number | null =>
  (code === 'status_not_successful' ? status : (code ?? status)) ?? null

type DeliveriesOptions = SessionOptions & { status?: string; response?: string; error?: string; event?: string }

/** Sending to one webhook: test events, what was sent, and sending it again. */
export function addWebhookDeliveryCommands(webhooks: KeyhookCommand): void {
  customerCommand(webhooks, 'test <webhook>', 'Send a test event to this webhook alone')
    .examples('npx keyhook webhooks test wh_… --event database.created --wait')
    .option('--event <type>', 'Send a test event of this type; by default the first type of the webhook')
    .option('--wait', 'Wait for the answer to the first attempt; exit with 1 if it failed')
    .run(async ({ client, output }, options: SessionOptions & { event?: string; wait?: true }, id: string) => {
      const event_type = options.event ?? (await client.webhooks.get(id)).event_types[0]!
      const sent = await client.webhooks.test(id, { event_type })
      if (!options.wait)
        return output.result(
          sent,
          `The test event ${sent.event_id} is being sent. Its attempts: npx keyhook webhooks deliveries ${id}`,
        )
      const event = await waitFor(
        () => client.events.get(sent.event_id),
        (one) => one.delivered_to[0]?.attempts.some(({ status }) => status !== 'sending') ?? false,
        () => ({ label: 'Waiting for the endpoint' }),
      )
      const { status, response_status, error_code } = event.delivered_to[0]!.attempts[0]!
      const text = `The endpoint ${answerText(status, response_status, error_code)}.`
      if (status === 'succeeded') return output.result(event, text)
      if (options.json) output.result(event, '')
      throw new OperationFailed(text)
    })
  customerCommand(webhooks, 'deliveries <webhook>', 'List every delivery attempt, newest first')
    .examples(
      'npx keyhook webhooks deliveries wh_… --limit 10',
      'npx keyhook webhooks deliveries wh_… --status failed --response 5xx',
    )
    .option('--status <status>', 'Only attempts that are sending, succeeded, failed or interrupted')
    .option(
      '--response <status>',
      'Only attempts with this HTTP status, such as 500 or 4xx; none: failed without an answer',
    )
    .option('--error <code>', 'Only attempts with this error code, such as timeout')
    .option('--event <event>', 'Only attempts to deliver the event with this id')
    .list(
      'attempts',
      columns,
      'Nothing has been sent to this webhook yet.',
      (client, limit, { status, response, error, event }: DeliveriesOptions, id: string) =>
        (status ?? response ?? error ?? event)
          ? client.deliveries.list({
              webhookId: id,
              status: status as AttemptStatus | undefined,
              responseStatus: response,
              errorCode: error as SendErrorCode | undefined,
              eventId: event,
              limit,
            })
          : client.webhooks.deliveries(id, { limit }),
    )
  customerCommand(webhooks, 'redeliver <webhook> <delivery>', 'Send the event of a delivery attempt again')
    .examples('npx keyhook webhooks redeliver wh_… dlv_…')
    .run(async ({ client, output }, _options: object, id: string, delivery: string) => {
      output.result(
        await client.webhooks.redeliver(id, delivery),
        `The event of the delivery attempt ${delivery} is being sent again.`,
      )
    })
  addRecover(webhooks)
}

function answerText(status: string, code: number | null, error: string | null): string {
  if (status === 'succeeded') return `accepted the test event (${code})`
  if (code === 401 || code === 403)
    return `refused the test event (${code}). The usual reason is a wrong secret: the program has to verify with the secret of this webhook`
  return `did not accept the test event (${code ?? error ?? status})`
}

type RecoverOptions = SessionOptions & { since: string; until?: string; dryRun?: true; wait?: true }

function addRecover(webhooks: KeyhookCommand): void {
  customerCommand(webhooks, 'recover <webhook>', 'Send the failed deliveries of a time range again')
    .examples(
      'npx keyhook webhooks recover wh_… --since 2h --dry-run',
      'npx keyhook webhooks recover wh_… --since 2026-11-17T12:00:00Z --wait',
    )
    .requiredOption('--since <time>', 'The range starts at this timestamp, or this long before now, such as 2h')
    .option('--until <time>', 'The range ends at this timestamp, or this long before now (default: now)')
    .option('--dry-run', 'Only count the deliveries that would be sent again')
    .option('--wait', 'Wait until every delivery is queued')
    .run(async ({ client, output }, options: RecoverOptions, id: string) => {
      const since = timestampOption('--since', options.since)
      const range = { since, ...(options.until && { until: timestampOption('--until', options.until) }) }
      if (options.dryRun) {
        const counted = await client.webhooks.recover(id, { ...range, dry_run: true })
        return output.result(counted, `${deliveriesText(counted.matching)} would be sent again.`)
      }
      const started = await client.webhooks.recover(id, range)
      if (!options.wait)
        return output.result(
          started,
          `${deliveriesText(started.matching)} will be sent again (recovery ${started.id}).`,
        )
      const recovery = await waitFor(
        () => client.webhooks.recovery(id, started.id!),
        (one: Recovery) => one.status === 'finished',
        ({ redelivered }) => ({
          label: 'Queued deliveries',
          done: redelivered,
          total: started.matching,
          amount: String,
        }),
      )
      output.result(recovery, `${deliveriesText(recovery.redelivered)} will be sent again.`)
    })
}

const deliveriesText = (count: number): string => (count === 1 ? '1 delivery' : `${count} deliveries`)
