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
  /** Adds the command to the program, and possibly others of the same module. Loaded only when it is needed. */
  add(program: Command): Promise<void>
}

type AddToInstallation = (program: Command, environment: Environment) => void

const operator =
  (load: () => Promise<AddToInstallation>): CommandEntry['add'] =>
  async (program) => {
    const [{ environment }, add] = await Promise.all([import('./environment.ts'), load()])
    add(program, environment)
  }

const directory = operator(async () => (await import('./directory-commands.ts')).addDirectoryCommands)
const maintenance = operator(async () => (await import('./maintenance-commands.ts')).addMaintenanceCommands)

/** Every command below `keyhook`. The help is made from this table, without loading what the commands need. */
export const commandTable: readonly CommandEntry[] = [
  {
    name: 'serve',
    audience: 'start',
    summary: 'Run Keyhook until Ctrl-C',
    add: operator(async () => (await import('./serve-command.ts')).addServeCommand),
  },
  {
    name: 'listen',
    audience: 'customers',
    summary: 'Receive deliveries on this machine over HTTPS and print them',
    add: operator(async () => (await import('./listen-command.ts')).addListenCommand),
  },
  { name: 'org', audience: 'operators', summary: 'Organizations', add: directory },
  { name: 'user', audience: 'operators', summary: 'Users', add: directory },
  { name: 'member', audience: 'operators', summary: 'Members of organizations', add: directory },
  { name: 'token', audience: 'operators', summary: 'Login tokens of the local issuer', add: directory },
  {
    name: 'event',
    audience: 'operators',
    summary: 'Publish events of your own platform',
    add: operator(async () => (await import('./event-commands.ts')).addEventCommands),
  },
  {
    name: 'invoice',
    audience: 'operators',
    summary: 'Issue invoices and mark them paid',
    add: operator(async () => (await import('./invoice-commands.ts')).addInvoiceCommands),
  },
  { name: 'migrate', audience: 'operators', summary: 'Bring the database schema up to date', add: maintenance },
  { name: 'secrets', audience: 'operators', summary: 'Reseal secrets, or give up lost ones', add: maintenance },
]
