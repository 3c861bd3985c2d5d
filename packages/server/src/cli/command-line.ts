import { runCommandLine as run } from '@keyhook/cli'
import { programs } from './program.ts'

/** Runs one command. Returns the exit code; docs/terminal.md lists them. */
export const runCommandLine = (args: string[]): Promise<number> =>
  // Loaded when there is an error, because the help does without it.
  run(programs, args, async (error) => (await import('./explain.ts')).explainInstallationError(error))
