import type { Command } from 'commander'
import type { Environment } from './environment.ts'

/** Who a command is for, in the order of the help. Customers work over HTTP, operators on the installation itself. */
export const audiences = {
  start: 'Start here:',
  customers: 'For customers, over HTTP (log in first):',
  operators: 'For operators, where the server runs:',
} as const

export type CommandEntry = {
  name: string
  audience: keyof typeof audiences
  summary: string
  /** Adds the command to the program, and possibly others of the same module. `whole` is the program with every command. */
  add(program: Command, whole: () => Promise<Command>): Promise<void>
}

type AddToInstallation = (program: Command, environment: Environment) => void

const operator =
  (load: () => Promise<AddToInstallation>): CommandEntry['add'] =>
  async (program) => {
    const [{ environment }, add] = await Promise.all([import('./environment.ts'), load()])
    add(program, environment)
  }

const customer =
  (load: () => Promise<(program: Command) => void>): CommandEntry['add'] =>
  async (program) =>
    (await load())(program)

const loginCommands = customer(async () => (await import('../terminal/login-commands.ts')).addLoginCommands)
const directory = operator(async () => (await import('./directory-commands.ts')).addDirectoryCommands)
const tokens = operator(async () => (await import('./token-commands.ts')).addTokenCommands)
const maintenance = operator(async () => (await import('./maintenance-commands.ts')).addMaintenanceCommands)

/** Every command below `keyhook`. The help is made from this table, without loading what the commands need. */
export const commandTable: readonly CommandEntry[] = [
  {
    name: 'demo',
    audience: 'start',
    summary: 'Show everything on this machine, and leave nothing behind',
    add: customer(async () => (await import('./demo/demo-command.ts')).addDemoCommand),
  },
  {
    name: 'serve',
    audience: 'start',
    summary: 'Run Keyhook until Ctrl-C',
    add: operator(async () => (await import('./serve-command.ts')).addServeCommand),
  },
  { name: 'login', audience: 'customers', summary: 'Store a token for a server', add: loginCommands },
  { name: 'logout', audience: 'customers', summary: 'Forget a token', add: loginCommands },
  { name: 'whoami', audience: 'customers', summary: 'Show server, organization and token in use', add: loginCommands },
  { name: 'profiles', audience: 'customers', summary: 'Servers that you are logged in to', add: loginCommands },
  {
    name: 'keys',
    audience: 'customers',
    summary: 'API keys: create, list, revoke',
    add: customer(async () => (await import('../terminal/keys-commands.ts')).addKeysCommands),
  },
  {
    name: 'webhooks',
    audience: 'customers',
    summary: 'Webhooks, their deliveries, secrets and health',
    add: customer(async () => (await import('../terminal/webhooks-commands.ts')).addWebhooksCommands),
  },
  {
    name: 'databases',
    audience: 'customers',
    summary: 'PostgreSQL databases: create, connect, delete',
    add: customer(async () => (await import('../terminal/databases-commands.ts')).addDatabasesCommands),
  },
  {
    name: 'backups',
    audience: 'customers',
    summary: 'Backups: create, list, restore, delete',
    add: customer(async () => (await import('../terminal/backups-commands.ts')).addBackupsCommands),
  },
  {
    name: 'invoices',
    audience: 'customers',
    summary: 'Invoices of your organization',
    add: customer(async () => (await import('../terminal/invoices-commands.ts')).addInvoicesCommands),
  },
  {
    name: 'events',
    audience: 'customers',
    summary: 'What happened: list, show, tail',
    add: customer(async () => (await import('../terminal/events-commands.ts')).addEventsCommands),
  },
  {
    name: 'listen',
    audience: 'customers',
    summary: 'Forward events to a program on this machine, until Ctrl-C',
    add: customer(async () => (await import('../terminal/listen/listen-command.ts')).addListenCommand),
  },
  {
    name: 'receive',
    audience: 'customers',
    summary: 'Receive webhooks over HTTPS here; fail or hang on request',
    add: customer(async () => (await import('../terminal/receive/receive-command.ts')).addReceiveCommand),
  },
  {
    name: 'audit',
    audience: 'customers',
    summary: 'Show who changed what, newest first',
    add: customer(async () => (await import('../terminal/audit-command.ts')).addAuditCommand),
  },
  {
    name: 'completion',
    audience: 'customers',
    summary: 'Print a completion script for bash, zsh or fish',
    add: async (program, whole) => (await import('./completion-command.ts')).addCompletionCommand(program, whole),
  },
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
    add: operator(async () => (await import('./event-type-commands.ts')).addEventTypeCommands),
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
    add: operator(async () => (await import('./self-backup-commands.ts')).addSelfBackupCommands),
  },
  {
    name: 'storage-limit',
    audience: 'operators',
    summary: 'How much disk one database may use',
    add: operator(async () => (await import('./storage-limit-command.ts')).addStorageLimitCommand),
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
