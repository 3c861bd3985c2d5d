import { examples, UsageError } from '@keyhook/cli'
import type { Command } from 'commander'
import type { Database } from '../db/database.ts'
import { operator } from '../domain/audit.ts'
import { eventTypes, isPublishedType } from '../domain/event-types.ts'
import { isEventId, measureData } from '../domain/events.ts'
import { createDeclaredCheck } from '../http/operator/declared-data.ts'
import { isRawNumber, parseExactly } from '../kernel/exact-json.ts'
import { invalid } from '../kernel/faults.ts'
import { noSuch } from '../operator/directory.ts'
import { existingOrganizations } from '../store/delivery/events.ts'
import { listEventTypes } from '../store/event-types.ts'
import { createHints } from '../webhooks/hints.ts'
import { createIntake } from '../webhooks/intake.ts'
import { idOption } from './directory-commands.ts'
import type { Environment } from './environment.ts'
import { withInstallation } from './with-installation.ts'

type Options = { org: string; type: string; data: string; id?: string; json?: boolean }

export function addEventCommands(program: Command, environment: Environment): void {
  program
    .command('event')
    .description('Events')
    .command('publish')
    .description('Publish an event to the webhooks of an organization that are subscribed to its type')
    .addHelpText(
      ...examples('npx keyhook event publish --org org_… --type invoice.paid --data \'{"invoice_id":"42"}\''),
    )
    .requiredOption('--org <org>', 'The organization')
    .requiredOption('--type <type>', `${eventTypes.join(', ')}, or one that is declared`)
    .requiredOption('--data <json>', 'The data of the event, a JSON object')
    .option('--id <id>', 'Your own id; the same id again is the same event')
    .option('--json', 'Print one line of JSON')
    .action((options: Options) =>
      withInstallation(environment, options, async ({ db, config }, output) => {
        const event = eventOf(options, config.eventBytesMax)
        await checkType(db, event)
        if (!(await existingOrganizations(db, [event.orgId])).has(event.orgId))
          throw noSuch('organization', event.orgId)
        const { give } = createHints({ db, onError() {} })
        const [id] = await createIntake({ db, hint: give }).accept({ actor: operator, events: [event] })
        output.result({ id }, `Published ${id}.`)
      }),
    )
}

function eventOf({ org, type, data, id }: Options, bytesMax: number) {
  const orgId = idOption('org', '--org', org)
  if (id !== undefined && !isEventId(id)) {
    throw new UsageError(`--id: "${id}" may have letters, digits and _ : - (at most 128, the first a letter or digit)`)
  }
  return { orgId, type, data: dataOf(data, bytesMax), id: id ?? null }
}

async function checkType(db: Database, event: { type: string; data: object }): Promise<void> {
  if (isPublishedType(event.type)) return
  const declared = (await listEventTypes(db)).map(({ name }) => name)
  if (!declared.includes(event.type)) {
    throw new UsageError(`--type: "${event.type}" is not one of ${[...eventTypes, ...declared].join(', ')}`)
  }
  const [problems] = await createDeclaredCheck(db)([event])
  const [first, ...others] = problems!
  if (first !== undefined) throw invalid([first, ...others])
}

function dataOf(text: string, bytesMax: number): object {
  let data: unknown
  try {
    data = parseExactly(text)
  } catch {
    throw new UsageError('--data: this is not JSON')
  }
  if (typeof data !== 'object' || data === null || Array.isArray(data) || isRawNumber(data))
    throw new UsageError('--data: must be a JSON object')
  const { fault } = measureData(data, bytesMax)
  if (fault !== null) throw new UsageError(`--data: ${fault}`)
  return data
}
