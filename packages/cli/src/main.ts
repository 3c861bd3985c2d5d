import { readFileSync } from 'node:fs'
import { createCustomerPrograms } from './customer-commands.ts'
import { runCommandLine, runProcess } from './program.ts'

const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as { version: string }

await runProcess((args) => runCommandLine(createCustomerPrograms(version), args))
