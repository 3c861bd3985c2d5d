import type { Command } from 'commander'
import { expect, test } from 'vitest'
import { commandTable, createProgram, createWholeProgram } from '../../src/cli/command-line.ts'

/** Every command that does something, with its path: `keys create`. */
function leavesOf(command: Command, path: string[] = []): { path: string; command: Command }[] {
  if (command.commands.length === 0) return [{ path: path.join(' '), command }]
  return command.commands.flatMap((child) => leavesOf(child, [...path, child.name()]))
}

/** The whole help, with the text that is added after it. */
function helpOf(command: Command): string {
  let text = ''
  command.configureOutput({
    writeOut: (chunk) => {
      text += chunk
    },
  })
  command.outputHelp()
  return text
}

const whole = await createWholeProgram()
const leaves = leavesOf(whole)

test('every command of the table is added by its module, and nothing else', () => {
  expect(whole.commands.map((command) => command.name()).sort()).toEqual(commandTable.map(({ name }) => name).sort())
  for (const command of whole.commands) {
    const isEmpty = command.commands.length === 0 && command.options.length === 0
    expect(isEmpty, `${command.name()} is only a line of the help`).toBe(false)
  }
})

test.for(leaves)('$path has a description, an example that calls it, and --json', ({ path, command }) => {
  expect(command.description()).toMatch(/^[A-Z"].{5,}[^.]$/)
  const help = helpOf(command)
  const shown = help.slice(help.indexOf('\nExample'))
  expect(help).toContain('\nExample')
  expect(shown).toContain(`npx keyhook ${path}`)
  for (const line of shown.split('\n')) expect(line.length, line).toBeLessThanOrEqual(100)
  expect(command.options.map(({ long }) => long)).toContain('--json')
})

const groups = whole.commands.filter((command) => command.commands.length > 0)
const pages = [...leaves, ...groups.map((command) => ({ path: command.name(), command })), { path: '', command: whole }]

test.for(pages)('the help of "$path" fits into 80 columns', ({ command }) => {
  const help = helpOf(command)
  const lines = help.slice(0, help.includes('\nExample') ? help.indexOf('\nExample') : undefined).split('\n')
  for (const line of lines) expect(line.length, line).toBeLessThanOrEqual(80)
})

test('the examples in help texts parse', async () => {
  for (const { command } of leaves) {
    const help = helpOf(command)
    for (const [, line] of help.slice(help.indexOf('\nExample')).matchAll(/npx keyhook ([^)|<>\n]+)/g)) {
      const words = [...line!.matchAll(/'([^']*)'|"([^"]*)"|(\S+)/g)].map(([, a, b, c]) => a ?? b ?? c!)
      const program = await createProgram(words)
      for (const { command: one } of leavesOf(program)) one.action(() => {})
      await expect(program.parseAsync(words, { from: 'user' }), line).resolves.toBeDefined()
    }
  }
})
