import type { EventAttempt, EventOutcomes, EventRecord } from '@keyhook/client'
import { eventIdOf, sequenceOption, timestampOption, typesOf } from '../arguments.ts'
import type { KeyhookCommand } from '../program.ts'
import { customerCommand } from '../session.ts'
import { printable, styled } from '../style.ts'
import { type Column, recordLines, timeText } from '../table.ts'

const columns: Column<EventRecord>[] = [
  { title: 'SEQ', of: ({ sequence }) => sequence },
  { title: 'TIME (UTC)', of: ({ created_at }) => timeText(created_at) },
  { title: 'TYPE', of: ({ type }) => type, mayShrink: true },
  { title: 'DELIVERIES', of: ({ outcomes }) => (outcomes ? outcomesText(outcomes) : null), mayShrink: true },
  { title: 'ID', of: ({ id }) => id },
]

/** `2 succeeded, 1 failing`; the states without a webhook are left out. */
function outcomesText(outcomes: EventOutcomes): string {
  const states = Object.entries(outcomes).filter(([, count]) => count > 0)
  return states.length === 0 ? 'no webhook' : states.map(([state, count]) => `${count} ${state}`).join(', ')
}

type Selection = { events?: string; after?: string }

const selected = ({ events, after }: Selection) => ({
  ...(events && { eventTypes: typesOf(events) }),
  ...(after && { after: sequenceOption('--after', after) }),
})

export function addCommands(program: KeyhookCommand): void {
  const events = program.command('events')
  customerCommand(events, 'list', 'List events, newest first')
    .examples(
      'npx keyhook events list --events backup.failed --since 24h',
      'npx keyhook events list --after 120 --json',
    )
    .option('--events <types>', 'List only events of these types, separated by commas')
    .option('--since <time>', 'List only events since a timestamp, or since a duration before now such as 2h')
    .option('--after <sequence>', 'List only events after this sequence number')
    .list('events', columns, 'There are no such events.', (client, limit, options: Selection & { since?: string }) =>
      client.events.list({
        limit,
        include: 'outcomes',
        ...selected(options),
        ...(options.since && { since: timestampOption('--since', options.since) }),
      }),
    )
  customerCommand(events, 'show <event>', 'Show an event: its body, and the webhooks it was delivered to')
    .examples('npx keyhook events show 3', 'npx keyhook events show evt_…')
    .run(async ({ client, output }, _options: object, text: string) => {
      const event = await client.events.get(await eventIdOf(client, text))
      const webhooks = [
        ...event.delivered_to.map((one) => `  ${one.webhook_id}  ${one.status}, ${attemptsText(one.attempts)}`),
        ...event.not_delivered_to.map((one) => `  ${one.webhook_id}  not sent: ${one.reason.replaceAll('_', ' ')}`),
      ]
      const lines = recordLines({
        Id: event.id,
        Type: event.type,
        Sequence: event.sequence,
        Time: timeText(event.created_at),
        Body: event.body,
      })
      output.result(
        event,
        [...lines, '', ...(webhooks.length === 0 ? ['The organization has no webhooks.'] : webhooks)].join('\n'),
      )
    })
  customerCommand(events, 'tail', 'Print events as they happen, until Ctrl-C')
    .examples('npx keyhook events tail', 'npx keyhook events tail --after 0 --events database.created --json')
    .option('--events <types>', 'Print only events of these types, separated by commas')
    .option('--after <sequence>', 'Start after this sequence number; by default with the next new event')
    .run(async ({ client, output }, options: Selection) => {
      const stream = client.events.stream(selected(options))
      output.note('Waiting for events. Ctrl-C stops this command.')
      for await (const event of stream) output.result(event, eventLine(event))
    })
}

function attemptsText(attempts: readonly EventAttempt[]): string {
  const newest = attempts.reduce((one, other) => (other.attempt > one.attempt ? other : one), attempts[0]!)
  if (newest === undefined) return 'no attempt yet'
  const answer = newest.response_status ?? newest.error_code ?? ''
  return `${attempts.length} attempt${attempts.length === 1 ? '' : 's'}, last answer ${answer}`
}

const eventLine = ({ sequence, created_at, type, body }: EventRecord): string =>
  `${styled('dim', String(sequence).padStart(5))}  ${timeText(created_at)}  ${styled('bold', type)}\n       ${printable(body)}`
