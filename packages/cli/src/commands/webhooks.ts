import type { Client, Webhook, WebhookChanges } from '@keyhook/client'
import type { Command } from 'commander'
import { timestampAfter, typesOf } from '../arguments.ts'
import { UsageError } from '../output.ts'
import { confirm } from '../prompt.ts'
import { customerCommand, inSession, type SessionOptions } from '../session.ts'
import { statusText, styled } from '../style.ts'
import { type Column, limitOption, pageSize, printList, recordLines, timeText } from '../table.ts'
import { addWebhookDeliveryCommands } from './webhook-deliveries.ts'
import { addWebhookSecretCommands } from './webhook-secrets.ts'

const columns: Column<Webhook>[] = [
  { title: 'ID', of: ({ id }) => id },
  { title: 'URL', of: ({ url }) => url, mayShrink: true },
  { title: 'EVENTS', of: ({ event_types }) => event_types.join(' '), mayShrink: true },
  { title: 'STATUS', of: ({ status }) => status, style: statusText },
  { title: 'SUCCESS 24 H', of: ({ health }) => shareText(health) },
]

const shareText = ({ success_share }: Webhook['health']): string | null =>
  success_share === null ? null : `${Math.floor(success_share * 100)} %`

export function addWebhooksCommands(program: Command): void {
  const webhooks = program.command('webhooks')
  customerCommand(
    webhooks,
    'create',
    'Create a webhook; its signing secret is shown once',
    'npx keyhook webhooks create --url https://example.com/hooks --events database.created,invoice.paid',
  )
    .requiredOption('--url <url>', 'Send deliveries to this https:// address')
    .option('--events <types>', 'Send events of these types, separated by commas; omit to list all types')
    .action(
      inSession(async ({ client, output }, options: SessionOptions & { url: string; events?: string }) => {
        if (options.events === undefined) throw new UsageError(await typesToChoose(client))
        const webhook = await client.webhooks.create({ url: options.url, event_types: typesOf(options.events) })
        output.result(
          webhook,
          `Created the webhook ${webhook.id}. Its secret is shown once, so store the secret now:\n\n  ${styled('bold', webhook.secret)}\n\nSend a test event: npx keyhook webhooks test ${webhook.id} --event ${webhook.event_types[0]}`,
        )
      }),
    )
  customerCommand(webhooks, 'list', 'List webhooks, newest first', 'npx keyhook webhooks list')
    .option(...limitOption('webhooks'))
    .action(
      inSession(async ({ client, output }, options: SessionOptions & { limit: string }) => {
        const list = client.webhooks.list({ limit: pageSize(options.limit) })
        await printList(
          output,
          options,
          list,
          columns,
          'The organization has no webhooks. "npx keyhook webhooks create --help" shows how to create a webhook.',
        )
      }),
    )
  customerCommand(webhooks, 'show <webhook>', 'Show a webhook and its health', 'npx keyhook webhooks show wh_…').action(
    inSession(async ({ client, output }, _options: SessionOptions, id: string) => {
      const webhook = await client.webhooks.get(id)
      output.result(webhook, details(webhook))
    }),
  )
  addUpdate(webhooks)
  customerCommand(
    webhooks,
    'pause <webhook>',
    'Pause a webhook; its deliveries wait, and are sent in order when it resumes',
    'npx keyhook webhooks pause wh_…',
    'npx keyhook webhooks pause wh_… --for 2h',
  )
    .option('--for <duration>', 'Pause the webhook this long, such as 30m, 2h or 3d (default: 7d)')
    .action(
      inSession(async ({ client, output }, options: SessionOptions & { for?: string }, id: string) => {
        const webhook = await client.webhooks.pause(
          id,
          options.for ? { until: timestampAfter('--for', options.for) } : {},
        )
        output.result(webhook, `The webhook ${id} is paused until ${webhook.paused_until}.`)
      }),
    )
  customerCommand(
    webhooks,
    'resume <webhook>',
    'Resume a paused webhook; the waiting deliveries are sent now',
    'npx keyhook webhooks resume wh_…',
  ).action(
    inSession(async ({ client, output }, _options: SessionOptions, id: string) => {
      output.result(await client.webhooks.resume(id), `The webhook ${id} is active.`)
    }),
  )
  addWebhookSecretCommands(webhooks)
  customerCommand(
    webhooks,
    'delete <webhook>',
    'Delete a webhook; nothing more is sent to its address',
    'npx keyhook webhooks delete wh_… --yes',
  )
    .option('--yes', 'Delete without asking for confirmation')
    .action(
      inSession(async ({ client, output }, options: SessionOptions & { yes?: boolean }, id: string) => {
        await confirm(`This deletes the webhook ${id} and its waiting deliveries.`, options)
        await client.webhooks.delete(id)
        output.result({ deleted: id }, `Deleted the webhook ${id}.`)
      }),
    )
  addWebhookDeliveryCommands(webhooks)
}

async function typesToChoose(client: Client): Promise<string> {
  const types = await client.eventTypes.list().toArray()
  const width = Math.max(...types.map(({ name }) => name.length))
  const lines = types.map(({ name, description }) => `  ${name.padEnd(width)}  ${description}`)
  return `--events: choose one or more of these event types, separated by commas:\n${lines.join('\n')}`
}

type UpdateOptions = SessionOptions & { url?: string; events?: string; description?: string; rateLimit?: string }

function addUpdate(webhooks: Command): void {
  customerCommand(
    webhooks,
    'update <webhook>',
    'Change the URL, event types, description or rate limit of a webhook',
    'npx keyhook webhooks update wh_… --url https://example.com/hooks --rate-limit 50',
    'npx keyhook webhooks update wh_… --description "" --rate-limit none',
  )
    .option('--url <url>', 'Send deliveries to this https:// address')
    .option('--events <types>', 'Send events of these types only, separated by commas')
    .option('--description <text>', 'Describe the webhook with this text; "" removes the description')
    .option('--rate-limit <n>', 'Send at most <n> deliveries a second, from 0.1 to 1000; "none" removes the limit')
    .action(
      inSession(async ({ client, output }, options: UpdateOptions, id: string) => {
        const changes: WebhookChanges = {
          ...(options.url !== undefined && { url: options.url }),
          ...(options.events !== undefined && { event_types: typesOf(options.events) }),
          ...(options.description !== undefined && { description: options.description || null }),
          ...(options.rateLimit !== undefined && { rate_limit: rateOf(options.rateLimit) }),
        }
        if (Object.keys(changes).length === 0)
          throw new UsageError('No change is given. Add --url, --events, --description or --rate-limit.')
        const webhook = await client.webhooks.update(id, changes)
        output.result(webhook, details(webhook))
      }),
    )
}

function rateOf(text: string): number | null {
  if (text === 'none') return null
  if (/^\d+(\.\d+)?$/.test(text)) return Number(text)
  throw new UsageError(`--rate-limit: ${JSON.stringify(text)} is neither a number of deliveries per second nor "none".`)
}

function rotationText(rotation: Webhook['secret_rotation']): string | undefined {
  if (rotation === null) return undefined
  const until = timeText(rotation.ends_at)
  return rotation.switched
    ? `switched to the new secret; the old secret ends at ${until}`
    : `not switched: deliveries are signed with the old secret until ${until}`
}

function details(webhook: Webhook): string {
  const { health } = webhook
  const failure = health.last_failure
  return recordLines({
    Id: webhook.id,
    URL: webhook.url,
    Events: webhook.event_types.join(', '),
    Description: webhook.description ?? undefined,
    Status:
      webhook.paused_until === null ? webhook.status : `${webhook.status} until ${timeText(webhook.paused_until)}`,
    'Rate limit': webhook.rate_limit === null ? undefined : `${webhook.rate_limit} deliveries a second`,
    'Secret rotation': rotationText(webhook.secret_rotation),
    Created: timeText(webhook.created_at),
    'Last 24 hours': `${health.succeeded} succeeded, ${health.failed} failed`,
    'Last failure':
      failure === null
        ? undefined
        : `${timeText(failure.at)}  ${failure.error_code ?? failure.response_status ?? ''}  ${failure.delivery_id}`,
    'Oldest waiting': health.oldest_waiting_at === null ? undefined : timeText(health.oldest_waiting_at),
  }).join('\n')
}
