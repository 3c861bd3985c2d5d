import { styleText } from 'node:util'
import { Command, CommanderError } from 'commander'
import type { Explained } from './explain-error.ts'
import { NotLoggedIn, UsageError } from './output.ts'

/** A command whose help ends with examples. Its subcommands are such commands too. */
export class KeyhookCommand extends Command {
  override createCommand(name?: string): KeyhookCommand {
    return new KeyhookCommand(name)
  }

  examples(...lines: string[]): this {
    const title = lines.length === 1 ? 'Example' : 'Examples'
    return this.addHelpText('after', `\n${title}:\n${lines.map((line) => `  ${line}`).join('\n')}`)
  }
}

export type CommandEntry = {
  name: string
  /** For whom it is: the help lists the commands of each audience under a heading. */
  audience: string
  summary: string
  load(): Promise<CommandModule>
}

/** Adds its command to the program, and possibly others. `whole` is the program with every command. */
type CommandModule = { addCommands(program: KeyhookCommand, whole: () => Promise<Command>): void }

/** The rows of a table of commands. */
export const commandsFor =
  (audience: string) =>
  (name: string, summary: string, load: () => Promise<CommandModule>): CommandEntry => ({
    name,
    audience,
    summary,
    load,
  })

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
    const program = new KeyhookCommand(name)
      .description(parts.description)
      .usage('<command> [options]')
      .version(parts.version, '--version', 'Show the version')
      .helpOption('-h, --help', 'Show this help')
      .addHelpText('after', `\n${parts.footer}`)
    const modules = await Promise.all(loaded.map((entry) => entry.load()))
    for (const { addCommands } of new Set(modules)) addCommands(program, whole)
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

/** Runs one command. Returns the exit code; docs/terminal.md lists them. `explainOther` is for errors that are not the client's. */
export async function runCommandLine(
  programs: Programs,
  args: string[],
  explainOther: (error: unknown) => Promise<Explained> = explainUnexpected,
): Promise<number> {
  try {
    const program = await programs.forArguments(args)
    await program.parseAsync(helpAtTheEnd(program, args), { from: 'user' })
    return 0
  } catch (error) {
    // Only --help and --version get here, and they have been printed.
    if (error instanceof CommanderError) return error.exitCode
    if (error instanceof UsageError) return fail(error.message, 2)
    if (error instanceof NotLoggedIn) return fail(error.message, 3)
    // Loaded here, because the help does without the client.
    const { explainClientError } = await import('./explain-error.ts')
    const { text, code } = explainClientError(error) ?? (await explainOther(error))
    return fail(text, code)
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

/** A bug, or a fault of the machine: the stack is what a report needs. */
const explainUnexpected = async (error: unknown): Promise<Explained> => ({
  text: error instanceof Error ? (error.stack ?? error.message) : String(error),
  code: 1,
})

function fail(text: string, code: number): number {
  process.stderr.write(`${text}\n`)
  return code
}

/** Runs the command line of this process and ends the process. */
export async function runProcess(run: (args: string[]) => Promise<number>): Promise<void> {
  // The reader of a pipe may stop reading ("keyhook … | head"): the command still does its work.
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EPIPE') return
      // Standard error may be full too: the exit code reports it in any case.
      process.stderr.write(`The output cannot be written: ${error.message}\n`)
      process.exit(1)
    })
  }
  process.exitCode = await run(process.argv.slice(2))
  // The work is done. A connection to a database that does not answer must not keep the process alive.
  setTimeout(() => process.exit(), 1_000).unref()
}
