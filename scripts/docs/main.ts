import { globSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { tables } from './tables.ts'

/*
 * Writes the tables of docs/ that repeat a table of the code, between `<!-- generated: name -->` and `<!-- /generated -->`.
 * With --check it changes nothing, and fails if a page differs from the code.
 */

const docs = fileURLToPath(new URL('../../docs/', import.meta.url))
const blocks = /(<!-- generated: ([a-z ]+) -->\n)[\s\S]*?(<!-- \/generated -->)/g
const isCheck = process.argv.includes('--check')
const used = new Set<string>()
const stale: string[] = []

for (const page of globSync('**/*.md', { cwd: docs })) {
  const text = readFileSync(join(docs, page), 'utf8')
  const written = text.replace(blocks, (_, start: string, name: string, end: string) => {
    const lines = tables[name]
    if (lines === undefined) throw new Error(`docs/${page}: nothing is generated under the name "${name}"`)
    used.add(name)
    return `${start}\n${lines.join('\n')}\n\n${end}`
  })
  if (written === text) continue
  stale.push(`docs/${page}`)
  if (!isCheck) writeFileSync(join(docs, page), written)
}

const missing = Object.keys(tables).filter((name) => !used.has(name))
if (missing.length > 0) throw new Error(`No page of docs/ has the generated table ${missing.join(', ')}.`)
if (isCheck && stale.length > 0) {
  process.stderr.write(
    `${stale.join(', ')}: a generated table differs from the code. "npm run docs" writes it again.\n`,
  )
  process.exitCode = 1
}
