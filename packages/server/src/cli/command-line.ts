import { Command, CommanderError } from 'commander'
import { ConfigProblems, readConfig } from '../config.ts'
import { Fault } from '../kernel/faults.ts'
import { isRefusal, isUnavailable } from '../store/database.ts'
import { DataDirectoryInUse } from '../store/embedded/index.ts'
import { SchemaMismatch } from '../store/migrate.ts'
import { addDirectoryCommands } from './directory-commands.ts'
import { addEventCommands } from './event-commands.ts'
import { addInvoiceCommands } from './invoice-commands.ts'
import { addListenCommand } from './listen-command.ts'
import { addMaintenanceCommands } from './maintenance-commands.ts'
import { Mistake } from './output.ts'
import { addServeCommand } from './serve-command.ts'

/** Runs one command and says how it ended: 0 well, 1 our fault, 2 a mistake that the message explains. */
export async function runCommandLine(words: string[]): Promise<number> {
  try {
    const program = createProgram()
    await program.parseAsync(words, { from: 'user' })
    return 0
  } catch (error) {
    return explain(error)
  }
}

function createProgram(): Command {
  const program = new Command('keyhook')
  program
    .description(
      'Organization API keys and signed webhooks. Settings are environment variables: docs/operating.md lists them.',
    )
    .helpOption('-h, --help', 'Show this help')
    .addHelpText(
      'after',
      `
Examples:
  keyhook serve
  keyhook org create --name "Acme"
  keyhook user create --email ada@example.com --name "Ada"
  keyhook member set --org org_… --user usr_… --role admin
  TOKEN=$(keyhook token issue --user usr_… --ttl 1h)`,
    )
  const environment = () => readConfig(process.env)
  addServeCommand(program, environment)
  addMaintenanceCommands(program, environment)
  addListenCommand(program, environment)
  addDirectoryCommands(program, environment)
  addEventCommands(program, environment)
  addInvoiceCommands(program, environment)
  makeStrict(program)
  return program
}

/** Commander prints and exits by itself unless told otherwise, on every command separately. */
function makeStrict(command: Command): void {
  command.exitOverride().configureOutput({ writeErr: () => {}, outputError: () => {} })
  command.showSuggestionAfterError(true)
  for (const child of command.commands) makeStrict(child)
}

function explain(error: unknown): number {
  if (error instanceof CommanderError) return explainUsage(error)
  if (error instanceof ConfigProblems) return say(error.problems.join('\n'), 2)
  if (error instanceof Fault) return say(error.public, 2)
  if (error instanceof Mistake || error instanceof DataDirectoryInUse || error instanceof SchemaMismatch) {
    return say(error.message, 2)
  }
  if (isRefusal(error)) return say(`DATABASE_URL: ${error.message}`, 2)
  if (isUnavailable(error))
    return say(`PostgreSQL cannot be reached: ${(error as Error).message || (error as { code: string }).code}`, 1)
  return say(error instanceof Error ? (error.stack ?? error.message) : String(error), 1)
}

function explainUsage(error: CommanderError): number {
  if (error.exitCode === 0) return 0
  if (error.code === 'commander.help') return say('Say what to do: "keyhook --help" lists the commands.', 2)
  return say(`${error.message.replace(/^error: /, '').replace(/\s*\n\s*/g, ' ')} ("keyhook --help" shows how)`, 2)
}

function say(text: string, code: number): number {
  process.stderr.write(`${text}\n`)
  return code
}
