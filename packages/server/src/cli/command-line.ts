import { type Command, CommanderError } from 'commander'
import { NotLoggedIn, UsageError } from '../terminal/output.ts'
import { createProgram } from './program.ts'

/** Runs one command. Returns the exit code; docs/terminal.md lists them. */
export async function runCommandLine(args: string[]): Promise<number> {
  try {
    const program = await createProgram(args)
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

async function explain(error: unknown): Promise<number> {
  // Only --help and --version get here, and they have been printed.
  if (error instanceof CommanderError) return error.exitCode
  if (error instanceof UsageError) return fail(error.message, 2)
  if (error instanceof NotLoggedIn) return fail(error.message, 3)
  // Loaded here, because the help does without them.
  const { explainClientError } = await import('../terminal/explain-client-error.ts')
  const { explainInstallationError } = await import('./explain.ts')
  const { text, code } = explainClientError(error) ?? explainInstallationError(error)
  return fail(text, code)
}

function fail(text: string, code: number): number {
  process.stderr.write(`${text}\n`)
  return code
}
