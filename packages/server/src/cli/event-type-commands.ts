import { readFileSync } from 'node:fs'
import { examples, UsageError } from '@keyhook/cli'
import type { Command } from 'commander'
import { readDeclarations } from '../domain/event-declarations.ts'
import { parseExactly } from '../kernel/exact-json.ts'
import { applyEventTypes, type EventTypeDiff } from '../operator/event-types.ts'
import { listEventTypes } from '../store/event-types.ts'
import type { Environment } from './environment.ts'
import { withInstallation } from './with-installation.ts'

type ApplyOptions = { file: string; dryRun?: boolean; force?: boolean; json?: boolean }

export function addEventTypeCommands(program: Command, environment: Environment): void {
  const types = program.command('event-types').description('Event types of your own, beside the six')
  types
    .command('apply')
    .description('Declare exactly the event types of a file; those that it does not have are removed')
    .addHelpText(
      ...examples(
        'npx keyhook event-types apply --file event-types.json --dry-run',
        'npx keyhook event-types apply --file event-types.json',
      ),
    )
    .requiredOption('--file <file>', 'A JSON array of { name, description, schema, example }')
    .option('--dry-run', 'Show what would change, and change nothing')
    .option('--force', 'Remove types even if webhooks are subscribed to them')
    .option('--json', 'Print one line of JSON')
    .action((options: ApplyOptions) =>
      withInstallation(environment, options, async ({ db, config }, output) => {
        const { types: declared, problems } = readDeclarations(readFile(options.file), config)
        if (problems.length > 0) {
          throw new UsageError(problems.map((problem) => `${options.file}: ${problem}`).join('\n'))
        }
        const dryRun = options.dryRun ?? false
        const diff = await applyEventTypes(db, declared, { dryRun, force: options.force ?? false })
        output.result({ ...diff, applied: !dryRun }, describe(diff, dryRun))
      }),
    )
  types
    .command('list')
    .description('List the event types that are declared')
    .addHelpText(...examples('npx keyhook event-types list', 'npx keyhook event-types list --json > event-types.json'))
    .option('--json', 'Print one JSON array, which apply takes')
    .action((options: { json?: boolean }) =>
      withInstallation(environment, options, async ({ db }, output) => {
        const rows = (await listEventTypes(db)).map((type) => ({
          ...type,
          schema: parseExactly(type.schema),
          example: parseExactly(type.example),
        }))
        async function* pages() {
          if (rows.length > 0) yield rows
        }
        if (rows.length === 0) output.note('No event types are declared: there are the six of the interface.')
        await output.list(pages(), (page) => page.map(({ name, description }) => `${name}  ${description}`))
      }),
    )
}

function readFile(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    throw new UsageError(`--file: ${(error as Error).message}`)
  }
}

function describe({ added, changed, removed, unchanged, subscribed }: EventTypeDiff, isDry: boolean): string {
  const webhooks = new Map(subscribed.map((one) => [one.name, one.webhooks]))
  const note = (name: string) => (webhooks.has(name) ? `  (webhooks subscribed to it: ${webhooks.get(name)})` : '')
  const lines = [
    ...added.map((name) => `+ ${name}`),
    ...changed.map(({ name, fields }) => `~ ${name}  (${fields.join(', ')})`),
    ...removed.map((name) => `- ${name}${note(name)}`),
    `${isDry ? 'Would be added' : 'Added'}: ${added.length}, changed: ${changed.length}, removed: ${removed.length}, unchanged: ${unchanged.length}.`,
  ]
  return lines.join('\n')
}
