import { type CommandEntry, customerCommands } from '@keyhook/cli'
import type { Command } from 'commander'
import type { Environment } from './installation.ts'

/** Who a command is for, in the order of the help. Customers work over HTTP, operators on the installation itself. */
export const audiences = {
  start: 'Start here:',
  customers: 'For customers, over HTTP (log in first):',
  operators: 'For operators, where the server runs:',
} as const

type AddToInstallation = (program: Command, environment: Environment) => void

const operator =
  (load: () => Promise<AddToInstallation>): CommandEntry['add'] =>
  async (program) => {
    const [{ environment }, add] = await Promise.all([import('./installation.ts'), load()])
    add(program, environment)
  }

const directory = operator(async () => (await import('./directory-commands.ts')).addDirectoryCommands)
const tokens = operator(async () => (await import('./console-commands.ts')).addTokenCommands)
const maintenance = operator(async () => (await import('./maintenance-commands.ts')).addMaintenanceCommands)

/** Every command below `keyhook`. The help is made from this table, without loading what the commands need. */
export const commandTable: readonly CommandEntry[] = [
  {
    name: 'demo',
    audience: 'start',
    summary: 'Show what Keyhook does, with a temporary server on this machine',
    add: async (program) => (await import('./demo/demo-command.ts')).addDemoCommand(program),
  },
  {
    name: 'serve',
    audience: 'start',
    summary: 'Run the Keyhook server until Ctrl-C',
    add: operator(async () => (await import('./serve-command.ts')).addServeCommand),
  },
  ...customerCommands,
  {
    name: 'console',
    audience: 'operators',
    summary: 'Print a link that signs in to the web console',
    add: operator(async () => (await import('./console-commands.ts')).addConsoleCommands),
  },
  { name: 'org', audience: 'operators', summary: 'Create and list organizations', add: directory },
  { name: 'user', audience: 'operators', summary: 'Create, list, verify, unlink and remove users', add: directory },
  { name: 'member', audience: 'operators', summary: 'Add and remove members of organizations', add: directory },
  {
    name: 'token',
    audience: 'operators',
    summary: 'Issue login tokens, and issue, list and revoke operator tokens',
    add: tokens,
  },
  {
    name: 'event',
    audience: 'operators',
    summary: 'Publish an event of your platform',
    add: operator(async () => (await import('./event-commands.ts')).addEventCommands),
  },
  {
    name: 'event-types',
    audience: 'operators',
    summary: 'Declare and list the event types of your platform',
    add: operator(async () => (await import('./event-commands.ts')).addEventTypeCommands),
  },
  {
    name: 'invoice',
    audience: 'operators',
    summary: 'Issue invoices and mark them paid',
    add: operator(async () => (await import('./invoice-commands.ts')).addInvoiceCommands),
  },
  {
    name: 'backup',
    audience: 'operators',
    summary: "Back up and restore Keyhook's own database, and decrypt archives",
    add: operator(async () => (await import('./archive-commands.ts')).addSelfBackupCommands),
  },
  {
    name: 'storage-limit',
    audience: 'operators',
    summary: 'Set how much disk one database may use',
    add: operator(async () => (await import('./maintenance-commands.ts')).addStorageLimitCommand),
  },
  {
    name: 'node',
    audience: 'operators',
    summary: 'List, drain, activate and forget nodes, which run databases',
    add: operator(async () => (await import('./node-commands.ts')).addNodeCommands),
  },
  { name: 'migrate', audience: 'operators', summary: 'Bring the database schema up to date', add: maintenance },
  {
    name: 'secrets',
    audience: 'operators',
    summary: 'Reseal secrets, or delete those whose master key is lost',
    add: maintenance,
  },
]
