// Runs a program and ignores Ctrl-C. SIGUSR2 exits without a cleanup.
import { runTool } from '../../../src/postgres/start-program.ts'

process.on('SIGINT', () => process.stdout.write('SIGINT\n'))
process.once('SIGUSR2', () => process.exit(0))
await runTool('/bin/sh', ['-c', process.argv[2]!], { account: undefined })
