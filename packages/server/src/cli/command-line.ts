import { readFileSync } from 'node:fs'
import { Command, CommanderError } from 'commander'
import { ConfigProblems, readConfig } from '../config.ts'
import { isTlsFailure, tlsFailureText } from '../db/connection/tls-failure.ts'
import { isLoginRejected, isUnavailable, UnsuitableDatabase } from '../db/database.ts'
import { DirectoryUnusable } from '../embedded/ensure-directory.ts'
import { DataDirectoryInUse } from '../embedded/index.ts'
import { Fault } from '../kernel/faults.ts'
import { MachineUnfit } from '../startup/explain-error.ts'
import { MasterKeyDamaged } from '../startup/master-key-file.ts'
import { MasterKeyMissing } from '../startup/open-master-keys.ts'
import { SchemaMismatch } from '../store/migrate.ts'
import { addDirectoryCommands } from './directory-commands.ts'
import { addEventCommands } from './event-commands.ts'
import { addInvoiceCommands } from './invoice-commands.ts'
import { addListenCommand } from './listen-command.ts'
import { addMaintenanceCommands } from './maintenance-commands.ts'
import { UsageError } from './output.ts'
import { addServeCommand } from './serve-command.ts'
import type { Environment } from './with-installation.ts'

/** As users have to type it in a checkout. */
const name = 'npx keyhook'

/** Runs one command. Returns the exit code: 0 for success, 1 for a fault of ours, 2 for wrong input. */
export async function runCommandLine(args: string[]): Promise<number> {
  try {
    const program = createProgram()
    await program.parseAsync(helpAtTheEnd(program, args), { from: 'user' })
    return 0
  } catch (error) {
    return explain(error)
  }
}

/** Commander's own help command takes one word only, and shows the whole help for a word that it does not know. */
function helpAtTheEnd(program: Command, args: string[]): string[] {
  const known: string[] = []
  let command = program
  let isAsked = false
  for (const word of args) {
    if (command.commands.length === 0 || word.startsWith('-')) break
    if (word === 'help') {
      isAsked = true
      continue
    }
    const next = command.commands.find((one) => one.name() === word)
    // Without --help Commander reports the unknown command and suggests a similar one.
    if (next === undefined) return isAsked ? [...known, word] : args
    known.push(word)
    command = next
  }
  return isAsked ? [...known, '--help'] : args
}

function createProgram(): Command {
  const program = new Command(name)
  program
    .description(
      'Organization API keys and signed webhooks. Settings are environment variables: docs/operating.md lists them.',
    )
    .version(version(), '--version', 'Show the version')
    .helpOption('-h, --help', 'Show this help')
    .addHelpText(
      'after',
      `
Examples:
  npx keyhook serve
  npx keyhook org create --name "Acme"
  npx keyhook user create --email ada@example.com --name "Ada"
  npx keyhook org list
  npx keyhook user list
  npx keyhook member set --org org_… --user usr_… --role admin
  TOKEN=$(npx keyhook token issue --user usr_… --ttl 1h)`,
    )
  const environment: Environment = (overrides) => readConfig({ ...process.env, ...overrides })
  addServeCommand(program, environment)
  addMaintenanceCommands(program, environment)
  addListenCommand(program, environment)
  addDirectoryCommands(program, environment)
  addEventCommands(program, environment)
  addInvoiceCommands(program, environment)
  makeStrict(program)
  return program
}

const version = (): string => {
  const manifest = readFileSync(new URL('../../package.json', import.meta.url), 'utf8')
  return (JSON.parse(manifest) as { version: string }).version
}

/** Turns off Commander's own printing and exiting, which has to be done for every command. */
function makeStrict(command: Command, path = name): void {
  command.configureOutput({ writeErr: () => {}, outputError: () => {} }).showSuggestionAfterError(true)
  command.exitOverride((error) => {
    if (error.exitCode === 0) throw error
    if (error.code === 'commander.help')
      throw new UsageError(`A command is missing: "${path} --help" lists the commands.`)
    const what = error.message.replace(/^error: /, '').replace(/\s*\n\s*/g, ' ')
    // For a misspelled option Commander reports only that the required one is missing.
    const unknown = command.args.find((word) => word.startsWith('-'))
    const isMissing = error.code === 'commander.missingMandatoryOptionValue' && unknown !== undefined
    throw new UsageError(`${isMissing ? `unknown option '${unknown}', and ` : ''}${what} ("${path} --help" shows how)`)
  })
  if (command.commands.length > 0) command.helpCommand('help [command]', 'Show the help of a command')
  for (const child of command.commands) makeStrict(child, `${path} ${child.name()}`)
}

/** Errors that the user can fix; the message says how. */
const userErrors = [
  UsageError,
  DataDirectoryInUse,
  DirectoryUnusable,
  MachineUnfit,
  MasterKeyDamaged,
  MasterKeyMissing,
  SchemaMismatch,
  UnsuitableDatabase,
]

function explain(error: unknown): number {
  // Only --help and --version get here, and they have been printed.
  if (error instanceof CommanderError) return error.exitCode
  if (error instanceof ConfigProblems) return fail(error.problems.join('\n'), 2)
  if (error instanceof Fault) return fail(error.public, 2)
  if (userErrors.some((kind) => error instanceof kind)) return fail((error as Error).message, 2)
  if (isLoginRejected(error)) return fail(`DATABASE_URL: ${error.message}`, 2)
  if (isTlsFailure(error)) return fail(`DATABASE_URL: ${tlsFailureText(error)}`, 2)
  if (isUnavailable(error)) {
    const where = process.env.DATABASE_URL ? ' (DATABASE_URL)' : ''
    const { message, code } = error as NodeJS.ErrnoException
    return fail(`PostgreSQL cannot be reached${where}: ${message || code}`, 1)
  }
  return fail(error instanceof Error ? (error.stack ?? error.message) : String(error), 1)
}

function fail(text: string, code: number): number {
  process.stderr.write(`${text}\n`)
  return code
}
