import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Command } from 'commander'
import { expect, test } from 'vitest'
import { createWholeProgram } from '../../src/cli/command-line.ts'

const root = fileURLToPath(new URL('../../../../', import.meta.url))
const pages = [
  'README.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
  ...readdirSync(`${root}docs`).map((name) => `docs/${name}`),
]
const whole = await createWholeProgram()

/** A container, a namespace or a release that is called like the program. */
const nameOfSomethingElse = /(?:exec|install|-n) keyhook\b/g

/** Every documented command line: what follows `keyhook` in a code span or a block. */
function documentedLines(text: string): string[] {
  const code = [...text.matchAll(/```[\s\S]*?```|`[^`\n]+`/g)].map(([found]) => found)
  return code.flatMap((found) =>
    [...found.replace(nameOfSomethingElse, '').matchAll(/\bkeyhook ((?:[a-z][a-z-]* ?)+)/g)].map(([, words]) =>
      words!.trim(),
    ),
  )
}

/** The first word that is no command, or null. */
function unknownWord(words: string[]): string | null {
  let command: Command = whole
  for (const word of words) {
    if (command.commands.length === 0) return null
    const next = command.commands.find((one) => one.name() === word)
    if (next === undefined) return word === 'help' ? null : word
    command = next
  }
  return null
}

test.each(pages.filter((page) => page.endsWith('.md')))('every command in %s exists', (page) => {
  const lines = documentedLines(readFileSync(`${root}${page}`, 'utf8'))
  expect(lines.filter((line) => unknownWord(line.split(' ')) !== null)).toEqual([])
  if (page === 'docs/terminal.md') expect(lines.length).toBeGreaterThan(10)
})

test('docs/terminal.md lists the exit codes that errors have', () => {
  const text = readFileSync(`${root}docs/terminal.md`, 'utf8')
  const codes = [...text.matchAll(/^\| (\d) \| /gm)].map(([, code]) => code)
  expect(codes).toEqual(['0', '1', '2', '3', '4'])
})
