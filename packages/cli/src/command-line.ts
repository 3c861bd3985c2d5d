import { type Command, CommanderError } from 'commander'
import type { Explained } from './explain-error.ts'
import { NotLoggedIn, UsageError } from './output.ts'
import type { Programs } from './program.ts'

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
