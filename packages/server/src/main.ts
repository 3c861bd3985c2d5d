import { runCommandLine } from './cli/command-line.ts'

// The reader of a pipe may stop reading ("keyhook … | head"): the command still does its work.
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') return
    // Standard error may be full too: the exit code reports it in any case.
    process.stderr.write(`The output cannot be written: ${error.message}\n`)
    process.exit(1)
  })
}

process.exitCode = await runCommandLine(process.argv.slice(2))
// The work is done. A connection to a database that does not answer must not keep the process alive.
setTimeout(() => process.exit(), 1_000).unref()
