import { styleText } from 'node:util'
import { Command } from 'commander'
import { version } from '../startup/version.ts'
import { UsageError } from '../terminal/output.ts'
import { audiences, commandTable } from './command-table.ts'

/** As users have to type it in a checkout. */
const name = 'npx keyhook'

/** The program for one command line: only the command that is called is loaded, which keeps the help fast. */
export async function createProgram(args: readonly string[]): Promise<Command> {
  const called = args.find((word) => word !== 'help' && !word.startsWith('-'))
  return build(called === undefined ? [] : commandTable.filter((entry) => entry.name === called))
}

/** The program with every command loaded, for completion scripts and tests. */
export const createWholeProgram = (): Promise<Command> => build(commandTable)

async function build(loaded: typeof commandTable): Promise<Command> {
  const program = createRoot()
  const adders = new Set(loaded.map((entry) => entry.add))
  for (const add of adders) await add(program, createWholeProgram)
  for (const { name, summary, audience } of commandTable) {
    const command = program.commands.find((one) => one.name() === name) ?? program.command(name)
    command.description(summary).helpGroup(audiences[audience])
  }
  makeStrict(program)
  return program
}

function createRoot(): Command {
  return new Command(name)
    .description('Organization API keys and signed webhooks, with the database platform behind them.')
    .usage('<command> [options]')
    .version(version(), '--version', 'Show the version')
    .helpOption('-h, --help', 'Show this help')
    .addHelpText(
      'after',
      `
Examples:
  npx keyhook serve
  npx keyhook login --url http://127.0.0.1:8080
  npx keyhook keys create --name ci
  npx keyhook webhooks list
  TOKEN=$(npx keyhook token issue --user usr_… --ttl 1h)

"npx keyhook help <command>" shows the options of a command, with examples.
Settings of the server are environment variables: docs/settings.md lists them.`,
    )
}

/** Turns off Commander's own printing and exiting, which has to be done for every command. */
function makeStrict(command: Command, path = name): void {
  command.configureOutput({ writeErr: () => {}, outputError: () => {} }).showSuggestionAfterError(true)
  command.configureHelp({
    styleTitle: (text) => styleText('bold', text, { validateStream: false }),
    // Without "[options]", which every command has: the descriptions need the room.
    subcommandTerm: (child) => [child.name(), ...child.registeredArguments.map((one) => `<${one.name()}>`)].join(' '),
  })
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
  // runCommandLine turns `help` into --help, at any place.
  command.helpCommand(false)
  for (const child of command.commands) makeStrict(child, `${path} ${child.name()}`)
}
