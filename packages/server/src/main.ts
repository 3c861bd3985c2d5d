import { runProcess } from '@keyhook/cli'
import { runCommandLine } from './cli/command-line.ts'

await runProcess(runCommandLine)
