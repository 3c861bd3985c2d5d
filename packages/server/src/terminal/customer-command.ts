import type { Command } from 'commander'
import { examples } from './examples.ts'
import { checkIds } from './record-arguments.ts'
import { openSession, type Session, type SessionOptions } from './session.ts'

/** A command over HTTP, with the options that all of them have. `name` includes its arguments: `revoke <key>`. */
export const customerCommand = (parent: Command, name: string, summary: string, ...lines: string[]): Command =>
  sessionOptions(parent.command(name).description(summary)).addHelpText(...examples(...lines))

export const sessionOptions = (command: Command): Command =>
  command
    .option('--org <org>', 'Organization, if you are in several')
    .option('--profile <name>', 'Profile of "keyhook login"')
    .option('--json', 'Print JSON: the records of the API')

/** Commander passes the arguments, then the options, then the command. */
export const inSession =
  <Options extends SessionOptions, Args extends (string | undefined)[]>(
    work: (session: Session, options: Options, ...args: Args) => Promise<void>,
  ) =>
  async (...given: unknown[]): Promise<void> => {
    const options = given.at(-2) as Options
    checkIds(given.at(-1) as Command)
    await work(await openSession(options), options, ...(given.slice(0, -2) as Args))
  }
