import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { createOutput, examples, stopSignal, styled, UsageError } from '@keyhook/cli'
import type { Command } from 'commander'
import { removeDataDirectory } from '../../embedded/remove-data-directory.ts'
import { startDemoReceiver } from './demo-receiver.ts'
import { startDemoServer } from './demo-server.ts'
import { runDemo } from './demo-steps.ts'

type Options = { keep?: string; once?: true; json?: boolean }

/** Everything that Keyhook does, on this machine, with nothing left behind. */
export function addDemoCommand(program: Command): void {
  program
    .command('demo')
    .addHelpText(...examples('npx keyhook demo', 'npx keyhook demo --keep ./demo'))
    .option('--keep <folder>', 'Keep everything in this folder, which has to be empty or new')
    .option('--once', 'End after the last step instead of running until Ctrl-C')
    .option('--json', 'Print a line of JSON for each event, and one with what was created')
    .action(demo)
}

async function demo(options: Options): Promise<void> {
  const output = createOutput(options.json ?? false)
  const say = (text: string): void => void (options.json || process.stdout.write(`${text}\n`))
  const stopped = stopSignal()
  void stopped.promise.then(() => say('\nStopping.'))
  await using parts = new AsyncDisposableStack()
  const folder = await demoFolder(options.keep)
  if (options.keep === undefined) parts.defer(() => removeFolder(folder))
  const end = options.keep === undefined ? 'removed when it ends' : 'kept'
  say(`${styled('bold', 'Keyhook demo.')} Everything is in ${folder}, and is ${end}.\n`)
  const receiver = await startDemoReceiver({ folder, output })
  parts.defer(receiver.close)
  say('Starting a server with its own PostgreSQL …')
  const server = startDemoServer({ folder, certificatePath: receiver.certificatePath })
  parts.defer(server.close)
  const work = async () =>
    runDemo({ server: await server.started(), receiver, output, say, isLast: options.once ?? false })
  const isDone = await Promise.race([work().then(() => true), stopped.promise.then(() => false)])
  if (!isDone || options.once) return
  await stopped.promise
}

async function demoFolder(keep: string | undefined): Promise<string> {
  if (keep === undefined) return mkdtemp(join(tmpdir(), 'keyhook-demo-'))
  const folder = resolve(keep)
  await mkdir(folder, { recursive: true, mode: 0o700 })
  if ((await readdir(folder)).length > 0) throw new UsageError(`--keep: ${folder} is not empty.`)
  return folder
}

async function removeFolder(folder: string): Promise<void> {
  await removeDataDirectory(join(folder, 'data'))
  await rm(folder, { recursive: true, force: true })
}
