import type { Command } from 'commander'
import { type CommandEntry, createPrograms, type Programs } from './program.ts'

const lazy =
  (load: () => Promise<(program: Command) => void>): CommandEntry['add'] =>
  async (program) =>
    (await load())(program)

const login = lazy(async () => (await import('./commands/login.ts')).addLoginCommands)

const audience = 'customers'

/** The commands of a customer. They work over HTTP, with a token. */
export const customerCommands: readonly CommandEntry[] = [
  { name: 'login', audience, summary: 'Log in to a server and store the token', add: login },
  { name: 'logout', audience, summary: 'Remove a stored token', add: login },
  { name: 'whoami', audience, summary: 'Show the server, organization and token in use', add: login },
  { name: 'profiles', audience, summary: 'List the servers you are logged in to, or choose one', add: login },
  {
    name: 'keys',
    audience,
    summary: 'Create, list and revoke API keys',
    add: lazy(async () => (await import('./commands/keys.ts')).addKeysCommands),
  },
  {
    name: 'webhooks',
    audience,
    summary: 'Manage webhooks, their deliveries and their secrets',
    add: lazy(async () => (await import('./commands/webhooks.ts')).addWebhooksCommands),
  },
  {
    name: 'databases',
    audience,
    summary: 'Create, connect to, restore and delete databases',
    add: lazy(async () => (await import('./commands/databases.ts')).addDatabasesCommands),
  },
  {
    name: 'backups',
    audience,
    summary: 'Create, list, restore, cancel and delete backups',
    add: lazy(async () => (await import('./commands/backups.ts')).addBackupsCommands),
  },
  {
    name: 'invoices',
    audience,
    summary: 'List and show the invoices of your organization',
    add: lazy(async () => (await import('./commands/invoices.ts')).addInvoicesCommands),
  },
  {
    name: 'events',
    audience,
    summary: 'List and show events, or print them as they happen',
    add: lazy(async () => (await import('./commands/events.ts')).addEventsCommands),
  },
  {
    name: 'listen',
    audience,
    summary: 'Forward events to a program on this machine, until Ctrl-C',
    add: lazy(async () => (await import('./commands/listen.ts')).addListenCommand),
  },
  {
    name: 'receive',
    audience,
    summary: 'Run an HTTPS receiver here, to see what Keyhook sends',
    add: lazy(async () => (await import('./commands/receive.ts')).addReceiveCommand),
  },
  {
    name: 'audit',
    audience,
    summary: 'Show who changed what, newest first',
    add: lazy(async () => (await import('./commands/audit.ts')).addAuditCommand),
  },
  {
    name: 'completion',
    audience,
    summary: 'Print a completion script for bash, zsh or fish',
    add: async (program, whole) => (await import('./commands/completion.ts')).addCompletionCommand(program, whole),
  },
]

/** The program of this package, where the server is not installed. */
export const createCustomerPrograms = (version: string): Programs =>
  createPrograms({
    description: 'Manage the API keys, webhooks, events and databases of your organization.',
    version,
    headings: { customers: 'Commands (log in first):' },
    commands: customerCommands,
    footer: `Examples:
  npx keyhook login --url https://keyhook.example.com
  npx keyhook keys create --name ci
  npx keyhook webhooks list

"npx keyhook help <command>" shows the options of a command, with examples.`,
  })
