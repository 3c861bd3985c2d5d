import { permissionTable, roles } from '../../packages/server/src/access/roles.ts'
import { type audiences, commandTable, createWholeProgram } from '../../packages/server/src/cli/command-line.ts'

import { faultCatalogue } from '../../packages/server/src/lib/fault-catalogue.ts'
import { deliverySettings } from '../../packages/server/src/settings/delivery-settings.ts'
import { mailSettings } from '../../packages/server/src/settings/mail-settings.ts'
import {
  archiveSettings,
  kubernetesSettings,
  platformSettings,
} from '../../packages/server/src/settings/platform-settings.ts'
import { serverSettings } from '../../packages/server/src/settings/server-settings.ts'
import type { Setting } from '../../packages/server/src/settings/setting.ts'
import { createMetrics } from '../../packages/server/src/telemetry/metrics.ts'

const code = (text: string): string => `\`${text}\``
const codes = (texts: readonly string[]): string => texts.map(code).join(', ')

/** The lines of a Markdown table. */
function table(heading: string[], rows: string[][]): string[] {
  const line = (cells: string[]) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
  return [line(heading), line(heading.map(() => '---')), ...rows.map(line)]
}

const settingsTable = (group: Record<string, Setting<unknown>>): string[] =>
  table(
    ['Variable', 'Default', 'Allowed', 'Meaning'],
    Object.values(group).map(({ variable, fallback, parse, about }) => [
      code(variable),
      fallback === null ? '' : code(fallback),
      parse.takes ?? '',
      about,
    ]),
  )

const secretFiles = [
  serverSettings,
  mailSettings,
  platformSettings,
  kubernetesSettings,
  archiveSettings,
  deliverySettings,
]
  .flatMap((group): Setting<unknown>[] => Object.values(group))
  .filter(({ secret }) => secret)
  .map(({ variable }) => `- ${code(`${variable}_FILE`)}`)

const errorTable = table(
  ['Code', 'Status', 'When', 'What to do'],
  Object.entries(faultCatalogue)
    .map(([name, { status, when, advice }]) => [code(name), String(status), when, advice])
    .toSorted(([, one], [, other]) => Number(one) - Number(other)),
)

type Command = Awaited<ReturnType<typeof createWholeProgram>>
const whole = await createWholeProgram()

/** Options that nearly every command has; the page names them once. */
const common = new Set(['--json', '--profile', '--org'])

function commandRows(command: Command, path: string, isCommon: (option: string) => boolean): string[][] {
  if (command.commands.length > 0) {
    return command.commands.flatMap((child) => commandRows(child, `${path} ${child.name()}`, isCommon))
  }
  const words = [path, ...command.registeredArguments.map((one) => `<${one.name()}>`)]
  const options = command.options.filter(({ long }) => !isCommon(long ?? '')).map(({ flags }) => flags)
  return [[code(words.join(' ')), `${command.description()}.`, codes(options)]]
}

function commandsFor(audience: keyof typeof audiences): string[] {
  const isCommon = (option: string) => (audience === 'customers' ? common.has(option) : option === '--json')
  const rows = commandTable
    .filter((entry) => entry.audience === audience)
    .flatMap(({ name }) => commandRows(whole.commands.find((one) => one.name() === name)!, name, isCommon))
  return table(['Command', 'What it does', 'Options'], rows)
}

/** Metrics exist from when they are first watched, so all of them are watched here; nothing is read. */
function metricsTable(): string[] {
  const never = () => {
    throw new Error('a metric was read to describe it')
  }
  const metrics = createMetrics()
  metrics.watchCluster(never)
  metrics.watchStorage(never)
  metrics.watch({ lanes: 0, inFlight: 0 })
  const ours = metrics.describe().filter(({ name }) => name.startsWith('keyhook_'))
  return table(
    ['Metric', 'Type', 'Labels', 'Meaning'],
    ours.map(({ name, type, labels, help }) => [code(name), type, codes(labels), help]),
  )
}

const permissionsTable = table(
  ['Permission', ...roles],
  Object.entries(permissionTable).map(([permission, reaches]) => [
    code(permission),
    ...roles.map((role) => ({ all: 'yes', own: 'own only', none: '' })[reaches[role]]),
  ]),
)

/** What can be generated, by the name that a page gives. */
export const tables: Readonly<Record<string, readonly string[]>> = {
  'settings server': settingsTable(serverSettings),
  'settings mail': settingsTable(mailSettings),
  'settings databases': settingsTable(platformSettings),
  'settings kubernetes': settingsTable(kubernetesSettings),
  'settings backups': settingsTable(archiveSettings),
  'settings deliveries': settingsTable(deliverySettings),
  'settings secrets': secretFiles,
  errors: errorTable,
  'commands start': commandsFor('start'),
  'commands customers': commandsFor('customers'),
  'commands operators': commandsFor('operators'),
  metrics: metricsTable(),
  permissions: permissionsTable,
}
