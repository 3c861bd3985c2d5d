import { styleText } from 'node:util'
import { Command } from 'commander'
import { UsageError } from './output.ts'

export type CommandEntry = {
  name: string
  /** For whom it is: the help lists the commands of each audience under a heading. */
  audience: string
  summary: string
  /** Adds the command to the program, and possibly others of the same module. `whole` is the program with every command. */
  add(program: Command, whole: () => Promise<Command>): Promise<void>
}

export type Programs = {
  /** The program for one command line: only the command that is called is loaded, which keeps the help fast. */
  forArguments(args: readonly string[]): Promise<Command>
  /** The program with every command loaded, for completion scripts and tests. */
  whole(): Promise<Command>
}

/** As users have to type it in a checkout. */
const name = 'npx keyhook'

/** Programs from a table of commands, without loading what the commands need. */
export function createPrograms(parts: {
  description: string
  version: string
  /** The heading of each audience. */
  headings: Readonly<Record<string, string>>
  commands: readonly CommandEntry[]
  /** The end of the help. */
  footer: string
}): Programs {
  async function build(loaded: readonly CommandEntry[]): Promise<Command> {
    const program = new Command(name)
      .description(parts.description)
      .usage('<command> [options]')
      .version(parts.version, '--version', 'Show the version')
      .helpOption('-h, --help', 'Show this help')
      .addHelpText('after', `\n${parts.footer}`)
    const adders = new Set(loaded.map((entry) => entry.add))
    for (const add of adders) await add(program, whole)
    for (const { name, summary, audience } of parts.commands) {
      const command = program.commands.find((one) => one.name() === name) ?? program.command(name)
      command.description(summary).helpGroup(parts.headings[audience]!)
    }
    makeStrict(program)
    return program
  }
  const whole = () => build(parts.commands)
  return {
    whole,
    forArguments(args) {
      const called = args.find((word) => word !== 'help' && !word.startsWith('-'))
      return build(called === undefined ? [] : parts.commands.filter((entry) => entry.name === called))
    },
  }
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
    // For a misspelled option Commander reports only that the required one is missing.
    const unknown = command.args.find((word) => word.startsWith('-'))
    const isMissing = error.code === 'commander.missingMandatoryOptionValue' && unknown !== undefined
    const also = isMissing ? `There is no option '${unknown}'. ` : ''
    throw new UsageError(`${also}${sentenceOf(error.message)} "${path} --help" shows how to use the command.`)
  })
  // runCommandLine turns `help` into --help, at any place.
  command.helpCommand(false)
  for (const child of command.commands) makeStrict(child, `${path} ${child.name()}`)
}

/** Commander's messages are not sentences: "required option '--name <name>' not specified". */
const sentences: readonly (readonly [RegExp, string])[] = [
  [/^unknown (command|option) ('[^']*')$/, 'There is no $1 $2.'],
  [/^unknown (command|option) ('[^']*') \((.+)\)$/, 'There is no $1 $2. $3'],
  [/^too many arguments.* Expected (\d+) arguments? but got (\d+)\.$/, 'The command takes $1 arguments, and not $2.'],
  [/^required option ('[^']*') not specified$/, 'The option $1 is required.'],
  [/^missing required argument '([^']*)'$/, 'The argument <$1> is required.'],
  [/^option ('[^']*') argument missing$/, 'The option $1 needs a value.'],
  [/^option ('[^']*') argument ('.*') is invalid\. (.+)$/, 'The option $1 does not allow $2. $3'],
  [/^command-argument value ('.*') is invalid for argument '(.+)'\. (.+)$/, 'The argument <$2> does not allow $1. $3'],
]

function sentenceOf(message: string): string {
  const text = message.replace(/^error: /, '').replace(/\s*\n\s*/g, ' ')
  const [form, sentence] = sentences.find(([one]) => one.test(text)) ?? [/$/, '.']
  return text.replace(form, sentence)
}
