import { runCommandLine } from './cli/command-line.ts'

// Whoever reads along may stop ("keyhook … | head"): what there is to do is done all the same.
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error
  })
}

process.exitCode = await runCommandLine(process.argv.slice(2))
