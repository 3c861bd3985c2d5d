import { readFileSync } from 'node:fs'
import { type KeyhookCommand, UsageError } from '@keyhook/cli'
import { operator } from '../access/audit.ts'
import type { Database } from '../db/database.ts'
import { readDeclarations } from '../delivery/event-declarations.ts'
import { existingOrganizations } from '../delivery/event-log-sql.ts'
import {
  applyEventTypes,
  disableOptionalTypes,
  type EventTypeDiff,
  enableOptionalTypes,
  listDeclared,
  listEventTypes,
  listOptionalTypes,
} from '../delivery/event-types.ts'
import { eventTypes, isEventId, isPublishedType, measureData } from '../delivery/events.ts'
import { createHints } from '../delivery/hints.ts'
import { createIntake } from '../delivery/intake.ts'
import { createDeclaredCheck } from '../delivery/intake-routes.ts'
import { isOptionalType, type OptionalType, optionalTypes } from '../delivery/optional-types.ts'
import { invalid } from '../lib/faults.ts'
import { isRawNumber, parseExactly } from '../lib/json.ts'
import { noSuch } from '../organizations/rules.ts'
import { idOption } from './directory-commands.ts'
import { operatorCommand, withInstallation } from './installation.ts'

type Options = { org: string; type: string; data: string; id?: string }

export function addCommands(program: KeyhookCommand): void {
  operatorCommand(
    program.command('event'),
    'publish',
    'Publish an event to the webhooks of an organization that are subscribed to its type',
  )
    .examples('npx keyhook event publish --org org_… --type invoice.paid --data \'{"invoice_id":"42"}\'')
    .requiredOption('--org <org>', 'Publish to this organization (org_…)')
    .requiredOption('--type <type>', `Publish an event of this type: ${eventTypes.join(', ')}, or a declared type`)
    .requiredOption('--data <json>', 'Publish this JSON object as the data of the event')
    .option('--id <id>', 'Give the event this id; publishing it again with this id has no effect')
    .run(async ({ db, config }, output, options: Options) => {
      const event = eventOf(options, config.eventBytesMax)
      await checkType(db, event)
      if (!(await existingOrganizations(db, [event.orgId])).has(event.orgId)) throw noSuch('organization', event.orgId)
      const { give } = createHints({ db, onError() {} })
      const [id] = await createIntake({ db, hint: give }).accept({ actor: operator, events: [event] })
      output.result({ id }, `Published ${id}.`)
    })
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
    throw new UsageError('--data: the value is not JSON')
  }
  if (typeof data !== 'object' || data === null || Array.isArray(data) || isRawNumber(data))
    throw new UsageError('--data: the value must be a JSON object')
  const { fault } = measureData(data, bytesMax)
  if (fault !== null) throw new UsageError(`--data: ${fault}`)
  return data
}

type ApplyOptions = { file: string; dryRun?: boolean; force?: boolean }

export function addEventTypeCommands(program: KeyhookCommand): void {
  const types = program.command('event-types')
  operatorCommand(
    types,
    'apply',
    'Declare the event types of a file, and remove declared types that are not in the file',
  )
    .examples(
      'npx keyhook event-types apply --file event-types.json --dry-run',
      'npx keyhook event-types apply --file event-types.json',
    )
    .requiredOption(
      '--file <file>',
      'Read the types from this file: a JSON array of { name, description, schema, example }',
    )
    .option('--dry-run', 'Show what would change, and change nothing')
    .option('--force', 'Remove types even if webhooks are subscribed to them')
    .run(async ({ db, config }, output, options: ApplyOptions) => {
      const { types: declared, problems } = readDeclarations(readFile(options.file), config)
      if (problems.length > 0) {
        throw new UsageError(problems.map((problem) => `${options.file}: ${problem}`).join('\n'))
      }
      const dryRun = options.dryRun ?? false
      const diff = await applyEventTypes(db, declared, { dryRun, force: options.force ?? false })
      output.result({ ...diff, applied: !dryRun }, describe(diff, dryRun))
    })
  types
    .command('list')
    .description('List the event types that are declared')
    .examples('npx keyhook event-types list', 'npx keyhook event-types list --json > event-types.json')
    .option('--json', 'Print a JSON array, which is a file for "event-types apply"')
    .action((options: { json?: boolean }) =>
      withInstallation(options, async ({ db }, output) => {
        const rows = (await listDeclared(db)).map((type) => ({
          ...type,
          schema: parseExactly(type.schema),
          example: parseExactly(type.example),
        }))
        async function* pages() {
          if (rows.length > 0) yield rows
        }
        if (rows.length === 0)
          output.note('No event types are declared. Webhooks can subscribe to the six built-in types.')
        await output.list(pages(), (page) => page.map(({ name, description }) => `${name}  ${description}`))
      }),
    )
  addOptionalTypeCommands(types)
}

function addOptionalTypeCommands(types: KeyhookCommand): void {
  operatorCommand(types, 'optional', 'List the optional event types of Keyhook itself, and which are enabled')
    .examples('npx keyhook event-types optional')
    .run(async ({ db }, output) => {
      const all = await listOptionalTypes(db)
      const lines = all.map((type) => `${type.enabled ? 'on ' : 'off'}  ${type.name}  ${type.description}`)
      output.result(all, lines.join('\n'))
    })
  operatorCommand(types, 'enable', 'Enable optional event types, so that webhooks can subscribe to them')
    .examples('npx keyhook event-types enable --types key.created,key.revoked')
    .requiredOption('--types <types>', `Enable these types, separated by commas: ${optionalTypes.join(', ')}`)
    .run(async ({ db }, output, options: { types: string }) => {
      const names = optionalNames(options.types)
      await enableOptionalTypes(db, names)
      output.result({ enabled: names }, `Enabled: ${names.join(', ')}.`)
    })
  operatorCommand(types, 'disable', 'Disable optional event types; no more events of them are published')
    .examples('npx keyhook event-types disable --types key.created')
    .requiredOption('--types <types>', 'Disable these types, separated by commas')
    .option('--force', 'Disable types even if webhooks are subscribed to them')
    .run(async ({ db }, output, options: { types: string; force?: boolean }) => {
      const names = optionalNames(options.types)
      await disableOptionalTypes(db, names, { force: options.force ?? false })
      output.result({ disabled: names }, `Disabled: ${names.join(', ')}.`)
    })
}

function optionalNames(text: string): OptionalType[] {
  const names = [...new Set(text.split(',').map((name) => name.trim()))]
  const wrong = names.find((name) => !isOptionalType(name))
  if (wrong !== undefined) throw new UsageError(`--types: "${wrong}" is not one of ${optionalTypes.join(', ')}`)
  return names as OptionalType[]
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
