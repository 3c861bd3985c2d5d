import { readFileSync } from 'node:fs'
import { runCommandLine, runProcess } from './command-line.ts'
import { createCustomerPrograms } from './customer-commands.ts'

const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as { version: string }

await runProcess((args) => runCommandLine(createCustomerPrograms(version), args))
