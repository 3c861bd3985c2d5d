import { type CommandEntry, commandsFor, createPrograms, type Programs } from './program.ts'

const command = commandsFor('customers')
const login = () => import('./commands/login.ts')

/** The commands of a customer. They work over HTTP, with a token. */
export const customerCommands: readonly CommandEntry[] = [
  command('login', 'Log in to a server and store the token', login),
  command('logout', 'Remove a stored token', login),
  command('whoami', 'Show the server, organization and token in use', login),
  command('profiles', 'List the servers you are logged in to, or choose one', login),
  command('keys', 'Create, list and revoke API keys', () => import('./commands/keys.ts')),
  command(
    'members',
    'List and manage members, and service members for API keys',
    () => import('./commands/members.ts'),
  ),
  command(
    'organizations',
    'List your organizations, or delete one for good',
    () => import('./commands/organizations.ts'),
  ),
  command('webhooks', 'Manage webhooks, their deliveries and their secrets', () => import('./commands/webhooks.ts')),
  command('databases', 'Create, connect to, restore and delete databases', () => import('./commands/databases.ts')),
  command('backups', 'Create, list, restore, cancel and delete backups', () => import('./commands/backups.ts')),
  command('invoices', 'List and show the invoices of your organization', () => import('./commands/invoices.ts')),
  command('events', 'List and show events, or print them as they happen', () => import('./commands/events.ts')),
  command('listen', 'Forward events to a program on this machine, until Ctrl-C', () => import('./commands/listen.ts')),
  command('receive', 'Run an HTTPS receiver here, to see what Keyhook sends', () => import('./commands/receive.ts')),
  command('audit', 'Show who changed what, newest first', () => import('./commands/audit.ts')),
  command('completion', 'Print a completion script for bash, zsh or fish', () => import('./commands/completion.ts')),
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
