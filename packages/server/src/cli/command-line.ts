import {
  type CommandEntry,
  commandsFor,
  createPrograms,
  customerCommands,
  type Programs,
  runCommandLine as run,
} from '@keyhook/cli'
import { version } from '../startup/process.ts'

/** Who a command is for, in the order of the help. Customers work over HTTP, operators on the installation itself. */
export const audiences = {
  start: 'Start here:',
  customers: 'For customers, over HTTP (log in first):',
  operators: 'For operators, where the server runs:',
} as const

const [start, operators] = [commandsFor('start'), commandsFor('operators')]
const directory = () => import('./directory-commands.ts')
const maintenance = () => import('./maintenance-commands.ts')
const tokens = async () => ({ addCommands: (await import('./console-commands.ts')).addTokenCommands })
const eventTypes = async () => ({ addCommands: (await import('./event-commands.ts')).addEventTypeCommands })
const storageLimit = async () => ({ addCommands: (await maintenance()).addStorageLimitCommand })

/** Every command below `keyhook`. The help is made from this table, without loading what the commands need. */
export const commandTable: readonly CommandEntry[] = [
  start('demo', 'Show what Keyhook does, with a temporary server on this machine', () => import('./demo.ts')),
  start('serve', 'Run the Keyhook server until Ctrl-C', () => import('./serve-command.ts')),
  ...customerCommands,
  operators('console', 'Print a link that signs in to the web console', () => import('./console-commands.ts')),
  operators('org', 'Create and list organizations', directory),
  operators('user', 'Create, list, verify, unlink and remove users', directory),
  operators('member', 'Add and remove members of organizations', directory),
  operators('quota', 'Show and set what an organization may use', () => import('./quota-commands.ts')),
  operators('token', 'Issue login tokens, and issue, list and revoke operator tokens', tokens),
  operators('event', 'Publish an event of your platform', () => import('./event-commands.ts')),
  operators('event-types', 'Declare and list the event types of your platform', eventTypes),
  operators('invoice', 'Issue invoices and mark them paid', () => import('./invoice-commands.ts')),
  operators(
    'backup',
    "Back up and restore Keyhook's own database, and decrypt archives",
    () => import('./archive-commands.ts'),
  ),
  operators('storage-limit', 'Set how much disk one database may use', storageLimit),
  operators('node', 'List, drain, activate and forget nodes, which run databases', () => import('./node-commands.ts')),
  operators('mail', 'Test the mail server', () => import('./mail-commands.ts')),
  operators('migrate', 'Bring the database schema up to date', maintenance),
  operators('secrets', 'Reseal secrets, or delete those whose master key is lost', maintenance),
]

const programs: Programs = createPrograms({
  description: 'Organization API keys and signed webhooks, with the database platform behind them.',
  version: version(),
  headings: audiences,
  commands: commandTable,
  footer: `Examples:
  npx keyhook serve
  npx keyhook login --url http://localhost:8080
  npx keyhook keys create --name ci
  npx keyhook webhooks list
  TOKEN=$(npx keyhook token issue --user usr_… --ttl 1h)

"npx keyhook help <command>" shows the options of a command, with examples.
Settings of the server are environment variables: docs/settings.md lists them.`,
})

export const { forArguments: createProgram, whole: createWholeProgram } = programs

/** Runs one command. Returns the exit code; docs/terminal.md lists them. */
export const runCommandLine = (args: string[]): Promise<number> =>
  // Loaded when there is an error, because the help does without it.
  run(programs, args, async (error) => (await import('../startup/explain-error.ts')).explainInstallationError(error))
