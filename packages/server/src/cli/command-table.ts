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
    summary: 'Show everything on this machine, and leave nothing behind',
    add: async (program) => (await import('./demo/demo-command.ts')).addDemoCommand(program),
  },
  {
    name: 'serve',
    audience: 'start',
    summary: 'Run Keyhook until Ctrl-C',
    add: operator(async () => (await import('./serve-command.ts')).addServeCommand),
  },
  ...customerCommands,
  {
    name: 'console',
    audience: 'operators',
    summary: 'Links that sign in to the web console',
    add: operator(async () => (await import('./console-commands.ts')).addConsoleCommands),
  },
  { name: 'org', audience: 'operators', summary: 'Organizations', add: directory },
  { name: 'user', audience: 'operators', summary: 'Users', add: directory },
  { name: 'member', audience: 'operators', summary: 'Members of organizations', add: directory },
  {
    name: 'token',
    audience: 'operators',
    summary: 'Login tokens of the local issuer, and operator tokens',
    add: tokens,
  },
  {
    name: 'event',
    audience: 'operators',
    summary: 'Publish events of your own platform',
    add: operator(async () => (await import('./event-commands.ts')).addEventCommands),
  },
  {
    name: 'event-types',
    audience: 'operators',
    summary: 'Declare event types of your own platform',
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
    summary: "Back up Keyhook's own database; decrypt archives",
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
    summary: 'Nodes: list, drain, activate, forget',
    add: operator(async () => (await import('./node-commands.ts')).addNodeCommands),
  },
  { name: 'migrate', audience: 'operators', summary: 'Bring the database schema up to date', add: maintenance },
  { name: 'secrets', audience: 'operators', summary: 'Reseal secrets, or give up lost ones', add: maintenance },
]
