import { runCommandLine } from './cli/command-line.ts'

// Whoever reads along may stop ("keyhook … | head"): what there is to do is done all the same.
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') return
    // Standard error may be as full as standard output: whoever called learns it from the exit code.
    process.stderr.write(`The output cannot be written: ${error.message}\n`)
    process.exit(1)
  })
}

process.exitCode = await runCommandLine(process.argv.slice(2))
// All is done that was to be done. A connection to a database that does not answer must not keep the process.
setTimeout(() => process.exit(), 1_000).unref()
