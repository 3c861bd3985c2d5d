import { createPrograms, type Programs, runCommandLine as run } from '@keyhook/cli'
import { version } from '../startup/process.ts'
import { audiences, commandTable } from './command-table.ts'

const programs: Programs = createPrograms({
  description: 'Organization API keys and signed webhooks, with the database platform behind them.',
  version: version(),
  headings: audiences,
  commands: commandTable,
  footer: `Examples:
  npx keyhook serve
  npx keyhook login --url http://127.0.0.1:8080
  npx keyhook keys create --name ci
  npx keyhook webhooks list
  TOKEN=$(npx keyhook token issue --user usr_… --ttl 1h)

"npx keyhook help <command>" shows the options of a command, with examples.
Settings of the server are environment variables: docs/settings.md lists them.`,
})

export const { forArguments: createProgram, whole: createWholeProgram } = programs

/** Runs one command. Returns the exit code; docs/terminal.md lists them. */
export const runCommandLine = (args: string[]): Promise<number> =>
  // Loaded when there is an error, because the help does without it.
  run(programs, args, async (error) => (await import('./explain.ts')).explainInstallationError(error))
