import { createOutput, exitOnSignal, KeyhookCommand, type Output } from '@keyhook/cli'
import type { Command } from 'commander'
import type { Database } from '../db/database.ts'
import { readConfig } from '../settings/config.ts'
import { type Installation, openInstallation } from '../startup/open.ts'

/** A command on the installation of the settings. Without a summary it has the one of the table of commands. */
export function operatorCommand(parent: Command, name: string, summary = ''): OperatorCommand {
  const command = new OperatorCommand(name).copyInheritedSettings(parent)
  parent.addCommand(command.description(summary))
  return command
}

type Json = { json?: boolean }

class OperatorCommand extends KeyhookCommand {
  #keysMayBeMissing = false

  /** For work that opens no webhook secret. */
  withoutKeys(): this {
    this.#keysMayBeMissing = true
    return this
  }

  run<Options extends object, Args extends string[]>(
    work: (installation: Installation, output: Output, options: Options, ...args: Args) => Promise<void>,
  ): this {
    return this.option('--json', 'Print one line of JSON').action((...given: unknown[]) => {
      const options = given.at(-2) as Options & Json
      const args = given.slice(0, -2) as Args
      const run = (installation: Installation, output: Output) => work(installation, output, options, ...args)
      return withInstallation(options, run, this.#keysMayBeMissing)
    })
  }

  /** Prints all rows, page by page: there may be more than fit into memory. `read` gets the last id, or '' at first. */
  list<Row extends { id: string }>(
    read: (db: Database, last: string, limit: number) => PromiseLike<Row[]>,
    lines: (page: Row[]) => string[],
  ): this {
    return this.option('--json', 'Print a JSON array on one line').action((options: Json) =>
      withInstallation(options, ({ db }, output) => output.list(pagesOf(db, read), lines)),
    )
  }
}

/** Opens the installation for one short command, with or without a running server, and closes it afterwards. */
export async function withInstallation(
  { json }: Json,
  work: (installation: Installation, output: Output) => Promise<void>,
  keysMayBeMissing = false,
): Promise<void> {
  const output = createOutput({ json })
  await exitOnSignal(async () => {
    const installation = await openInstallation(readConfig(process.env), {
      purpose: 'command',
      note: output.note,
      keysMayBeMissing,
    })
    try {
      await work(installation, output)
    } finally {
      await installation.close()
    }
  })
}

const pageRows = 500

async function* pagesOf<Row extends { id: string }>(
  db: Database,
  read: (db: Database, last: string, limit: number) => PromiseLike<Row[]>,
): AsyncGenerator<Row[]> {
  let last = ''
  for (;;) {
    const page = await read(db, last, pageRows)
    if (page.length > 0) yield [...page]
    if (page.length < pageRows) return
    last = page.at(-1)!.id
  }
}
