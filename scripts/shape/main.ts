import { globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { type Executed, executedFiles } from './executed.ts'

/*
 * Prints which files of the server a key creation, a list and a delivered event execute, and the size of each folder. With --check
 * it only compares the lists of ARCHITECTURE.md with what was executed.
 */

const root = fileURLToPath(new URL('../../', import.meta.url))
const source = `${root}packages/server/src/`

/** Timers execute these files too, on a busy machine during any flow. */
const alsoByTimers = [
  'delivery/maintenance.ts',
  'delivery/redelivery-sql.ts',
  'http/connections.ts',
  'keys/rules.ts',
  'keys/sql.ts',
  'keys/uses.ts',
  'lib/log.ts',
  'postgres/log-file.ts',
]

function check(executed: Executed): string[] {
  const text = readFileSync(`${root}ARCHITECTURE.md`, 'utf8')
  return Object.entries(executed).flatMap(([name, files]) => {
    const [, block] = new RegExp(`<!-- executed: ${name} -->([\\s\\S]*?)<!-- /executed -->`).exec(text) ?? []
    if (block === undefined) return []
    const listed = [...block.matchAll(/`([\w/-]+\.ts)`/g)].map(([, file]) => file!)
    return [
      ...files
        .filter((file) => !listed.includes(file) && !alsoByTimers.includes(file))
        .map((file) => `${name}: ${file} is executed and not listed`),
      ...listed.filter((file) => !files.includes(file)).map((file) => `${name}: ${file} is listed and not executed`),
    ]
  })
}

function printFolders(): void {
  const folders = new Map<string, { files: number; lines: number }>()
  for (const file of globSync('**/*.ts', { cwd: source })) {
    const folder = file.includes('/') ? file.slice(0, file.indexOf('/')) : '.'
    const size = folders.get(folder) ?? { files: 0, lines: 0 }
    size.files += 1
    size.lines += readFileSync(source + file, 'utf8').split('\n').length - 1
    folders.set(folder, size)
  }
  let [files, lines] = [0, 0]
  for (const [folder, size] of [...folders].sort((a, b) => b[1].lines - a[1].lines)) {
    console.log(`${folder.padEnd(16)}${String(size.files).padStart(5)} files${String(size.lines).padStart(8)} lines`)
    files += size.files
    lines += size.lines
  }
  console.log(`${'together'.padEnd(16)}${String(files).padStart(5)} files${String(lines).padStart(8)} lines`)
}

const executed = await executedFiles(source)
if (process.argv.includes('--check')) {
  const problems = check(executed)
  for (const problem of problems) console.error(`ARCHITECTURE.md: ${problem}. "npm run shape" prints the lists.`)
  process.exitCode = problems.length > 0 ? 1 : 0
} else {
  for (const [name, files] of Object.entries(executed)) {
    console.log(`${name}: ${files.length} files\n${files.map((file) => `  ${file}`).join('\n')}\n`)
  }
  printFolders()
}
