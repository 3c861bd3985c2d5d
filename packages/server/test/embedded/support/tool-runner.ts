// A Keyhook that runs a program, and goes on when it hears Ctrl-C. SIGUSR2 is a sudden end that cleans up nothing.
import { runTool } from '../../../src/embedded/tool.ts'

process.on('SIGINT', () => process.stdout.write('heard\n'))
process.once('SIGUSR2', () => process.exit(0))
await runTool('/bin/sh', ['-c', process.argv[2]!], { account: undefined })
