import { existsSync, readFileSync } from 'node:fs'
import type { Client, Webhook, WebhookChanges, WebhookSuspension } from '@keyhook/client'
import { durationMs, timestampAfter, typesOf } from '../arguments.ts'
import { createOutput, UsageError } from '../output.ts'
import type { KeyhookCommand } from '../program.ts'
import { confirm } from '../prompt.ts'
import { customerCommand, type SessionOptions } from '../session.ts'
import { statusText, styled } from '../style.ts'
import { type Column, recordLines, timeText } from '../table.ts'
import { addWebhookDeliveryCommands, outcomeOf } from './webhook-deliveries.ts'

const columns: Column<Webhook>[] = [
  { title: 'ID', of: ({ id }) => id },
  { title: 'URL', of: ({ url }) => url, mayShrink: true },
  { title: 'EVENTS', of: ({ event_types }) => event_types.join(' '), mayShrink: true },
  { title: 'STATUS', of: ({ status }) => status, style: statusText },
  { title: 'SUCCESS 24 H', of: ({ health }) => shareText(health) },
]

const shareText = ({ success_share }: Webhook['health']): string | null =>
  success_share === null ? null : `${Math.floor(success_share * 100)} %`

export function addCommands(program: KeyhookCommand): void {
  const webhooks = program.command('webhooks')
  customerCommand(webhooks, 'create', 'Create a webhook; its signing secret is shown once')
    .examples('npx keyhook webhooks create --url https://example.com/hooks --events database.created,invoice.paid')
    .requiredOption('--url <url>', 'Send deliveries to this https:// address')
    .option('--events <types>', 'Send events of these types, separated by commas; omit to list all types')
    .run(async ({ client, output }, options: { url: string; events?: string }) => {
      if (options.events === undefined) throw new UsageError(await typesToChoose(client))
      const webhook = await client.webhooks.create({ url: options.url, event_types: typesOf(options.events) })
      output.result(
        webhook,
        `Created the webhook ${webhook.id}. Its secret is shown once, so store the secret now:\n\n  ${styled('bold', webhook.secret)}\n\nSend a test event: npx keyhook webhooks test ${webhook.id} --event ${webhook.event_types[0]}`,
      )
    })
  customerCommand(webhooks, 'list', 'List webhooks, newest first')
    .examples('npx keyhook webhooks list')
    .list(
      'webhooks',
      columns,
      'The organization has no webhooks. "npx keyhook webhooks create --help" shows how to create a webhook.',
      (client, limit) => client.webhooks.list({ limit }),
    )
  customerCommand(webhooks, 'show <webhook>', 'Show a webhook and its health')
    .examples('npx keyhook webhooks show wh_…')
    .run(async ({ client, output }, _options: object, id: string) => {
      const webhook = await client.webhooks.get(id)
      output.result(webhook, details(webhook))
    })
  addUpdate(webhooks)
  customerCommand(
    webhooks,
    'pause <webhook>',
    'Pause a webhook; its deliveries wait, and are sent in order when it resumes',
  )
    .examples('npx keyhook webhooks pause wh_…', 'npx keyhook webhooks pause wh_… --for 2h')
    .option('--for <duration>', 'Pause the webhook this long, such as 30m, 2h or 3d (default: 7d)')
    .run(async ({ client, output }, options: { for?: string }, id: string) => {
      const webhook = await client.webhooks.pause(
        id,
        options.for ? { until: timestampAfter('--for', options.for) } : {},
      )
      output.result(webhook, `The webhook ${id} is paused until ${webhook.paused_until}.`)
    })
  customerCommand(webhooks, 'resume <webhook>', 'Resume a paused webhook; the waiting deliveries are sent now')
    .examples('npx keyhook webhooks resume wh_…')
    .run(async ({ client, output }, _options: object, id: string) => {
      output.result(await client.webhooks.resume(id), `The webhook ${id} is active.`)
    })
  customerCommand(webhooks, 'suspension', 'Show or set the time after which failing webhooks are suspended')
    .examples('npx keyhook webhooks suspension', 'npx keyhook webhooks suspension --after-hours 48')
    .option(
      '--after-hours <number>',
      'Suspend failing webhooks after this many hours, up to 720; 0: never; "default": the time of the operator',
    )
    .run(async ({ client, output }, { afterHours }: { afterHours?: string }) => {
      const suspension =
        afterHours === undefined
          ? await client.webhooks.suspension()
          : await client.webhooks.setSuspension({ after_hours: hoursOf(afterHours) })
      output.result(suspension, suspensionText(suspension))
    })
  addSecretCommands(webhooks)
  customerCommand(webhooks, 'delete <webhook>', 'Delete a webhook; nothing more is sent to its address')
    .examples('npx keyhook webhooks delete wh_… --yes')
    .option('--yes', 'Delete without asking for confirmation')
    .run(async ({ client, output }, options: { yes?: boolean }, id: string) => {
      await confirm(`This deletes the webhook ${id} and its waiting deliveries.`, options)
      await client.webhooks.delete(id)
      output.result({ deleted: id }, `Deleted the webhook ${id}.`)
    })
  addWebhookDeliveryCommands(webhooks)
}

function hoursOf(text: string): number | null {
  if (text === 'default') return null
  if (/^\d{1,3}$/.test(text) && Number(text) <= 720) return Number(text)
  throw new UsageError(`--after-hours: ${JSON.stringify(text)} is neither a whole number from 0 to 720 nor "default".`)
}

function suspensionText({ after_hours, operator_after_hours }: WebhookSuspension): string {
  const hours = after_hours ?? operator_after_hours
  const when = hours === 0 ? 'never suspended' : `suspended after ${hours} ${hours === 1 ? 'hour' : 'hours'} of failing`
  return `Webhooks are ${when}, as the ${after_hours === null ? 'operator' : 'organization'} has set it.`
}

async function typesToChoose(client: Client): Promise<string> {
  const types = await client.eventTypes.list().toArray()
  const width = Math.max(...types.map(({ name }) => name.length))
  const lines = types.map(({ name, description }) => `  ${name.padEnd(width)}  ${description}`)
  return `--events: choose one or more of these event types, separated by commas:\n${lines.join('\n')}`
}

type UpdateOptions = SessionOptions & { url?: string; events?: string; description?: string; rateLimit?: string }

function addUpdate(webhooks: KeyhookCommand): void {
  customerCommand(webhooks, 'update <webhook>', 'Change the URL, event types, description or rate limit of a webhook')
    .examples(
      'npx keyhook webhooks update wh_… --url https://example.com/hooks --rate-limit 50',
      'npx keyhook webhooks update wh_… --description "" --rate-limit none',
    )
    .option('--url <url>', 'Send deliveries to this https:// address')
    .option('--events <types>', 'Send events of these types only, separated by commas')
    .option('--description <text>', 'Describe the webhook with this text; "" removes the description')
    .option('--rate-limit <n>', 'Send at most <n> deliveries a second, from 0.1 to 1000; "none" removes the limit')
    .run(async ({ client, output }, options: UpdateOptions, id: string) => {
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
    })
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

/** Not all are counted. */
const waitingText = (waiting: number): string =>
  waiting >= 10_000 ? '10000 deliveries or more' : waiting === 1 ? '1 delivery' : `${waiting} deliveries`

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
    'Failing since': webhook.failing_since === null ? undefined : timeText(webhook.failing_since),
    'Rate limit': webhook.rate_limit === null ? undefined : `${webhook.rate_limit} deliveries a second`,
    'Secret created': webhook.secret_created_at === null ? undefined : timeText(webhook.secret_created_at),
    'Secret rotation': rotationText(webhook.secret_rotation),
    Created: timeText(webhook.created_at),
    'Last 24 hours': `${health.succeeded} succeeded, ${health.failed} failed`,
    'Last failure':
      failure === null
        ? undefined
        : `${timeText(failure.at)}  ${outcomeOf(failure.response_status, failure.error_code) ?? ''}  ${failure.delivery_id}`,
    Waiting: waitingText(health.waiting),
    'Next attempt':
      health.next_attempt_at === null
        ? undefined
        : `${timeText(health.next_attempt_at)}${webhook.status === 'suspended' ? ', and then every hour' : ''}`,
    'Oldest waiting': health.oldest_waiting_at === null ? undefined : timeText(health.oldest_waiting_at),
  }).join('\n')
}

/** In the published package, and in a checkout. */
const guideFiles = ['../receiving-webhooks.md', '../../../../docs/receiving-webhooks.md'].map(
  (path) => new URL(path, import.meta.url),
)

/** The functions of docs/receiving-webhooks.md, by language. The tests run them. */
function verificationCode(): Map<string, string> {
  const guide = readFileSync(guideFiles.find((file) => existsSync(file))!, 'utf8')
  const blocks = [...guide.matchAll(/^```(\w+) verify\n([\s\S]*?)^```/gm)]
  return new Map(blocks.filter(([, name]) => name !== 'toml').map(([, name, text]) => [name!, text!.trimEnd()]))
}

type RotationOptions = SessionOptions & { overlap?: string; switch?: true }

/** The steps of a rotation; each names the next one. */
function addSecretCommands(webhooks: KeyhookCommand): void {
  customerCommand(
    webhooks,
    'rotate-secret <webhook>',
    'Replace the secret of a webhook in three steps; each step prints the next',
  )
    .examples(
      'npx keyhook webhooks rotate-secret wh_…',
      'npx keyhook webhooks rotate-secret wh_… --switch --overlap 2h',
      'npx keyhook webhooks rotate-secret wh_… --overlap 0',
    )
    .option('--switch', 'Sign with the new secret from now on; this is the last step')
    .option(
      '--overlap <duration>',
      'Keep the old secret valid this long, such as 2h; 0 ends it at once (default: 30 days before the switch, 1 day after the switch)',
    )
    .run(async ({ client, output }, options: RotationOptions, id: string) => {
      const overlap = options.overlap === undefined ? {} : { overlap_seconds: overlapSeconds(options.overlap) }
      if (options.switch) {
        const webhook = await client.webhooks.switchSecret(id, overlap)
        const until = webhook.secret_rotation?.ends_at
        const end = until === undefined ? 'The old secret has ended.' : `The old secret ends at ${until}.`
        return output.result(
          webhook,
          `The webhook ${id} signs with the new secret. ${end} Then remove the old secret from your program.`,
        )
      }
      const rotated = await client.webhooks.rotateSecret(id, overlap)
      const until = rotated.secret_rotation?.ends_at
      output.result(
        rotated,
        until === undefined
          ? `The old secret has ended. The new secret is shown once, so store it now:\n\n  ${styled('bold', rotated.secret)}`
          : rotationSteps(id, rotated.secret, until),
      )
    })
  webhooks
    .command('code [language]')
    .description('Print a function that verifies deliveries with one secret or several')
    .option('--json', 'Print the function as one line of JSON')
    .examples('npx keyhook webhooks code', 'npx keyhook webhooks code python')
    .action((language: string | undefined, options: { json?: boolean }) => {
      const code = verificationCode()
      const text = code.get(language ?? 'js')
      if (text === undefined)
        throw new UsageError(
          `There is no code in the language ${JSON.stringify(language)}. Choose one of: ${[...code.keys()].join(', ')}.`,
        )
      createOutput(options).result({ language: language ?? 'js', code: text }, text)
    })
}

const rotationSteps = (
  id: string,
  secret: string,
  until: string,
): string => `${styled('bold', 'Step 1 of 3')}: store the new secret now, because it is shown once:

  ${styled('bold', secret)}

${styled('bold', 'Step 2 of 3')}: let your program accept both secrets, and deploy it. This command prints a function that
accepts both:
  npx keyhook webhooks code js   (or ${[...verificationCode().keys()].slice(1).join(', ')})
Then send a test event, which is signed with the new secret alone:
  npx keyhook webhooks test ${id} --wait

${styled('bold', 'Step 3 of 3')}: when your program accepts the test event, switch to the new secret. The old secret ends a day
later, or after --overlap:
  npx keyhook webhooks rotate-secret ${id} --switch

Deliveries are signed with the old secret until you switch, at the latest until ${until}.`

function overlapSeconds(text: string): number {
  return /^\d{1,9}$/.test(text) ? Number(text) : durationMs('--overlap', text) / 1_000
}
