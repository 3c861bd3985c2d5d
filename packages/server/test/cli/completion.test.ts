import { execFileSync } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { keyhookHere, scratchDirectory } from '../kit/processes.ts'

const isInstalled = (shell: string): boolean => {
  try {
    execFileSync(shell, ['--version'])
    return true
  } catch {
    return false
  }
}

async function scriptFile(shell: string): Promise<string> {
  const { code, stdout } = await keyhookHere(['completion', shell], {})
  expect(code).toBe(0)
  const file = join(await scratchDirectory(), `keyhook.${shell}`)
  await writeFile(file, stdout)
  return file
}

/** What is typed so far, the last word unfinished; and what the shell has to offer, among others. */
const cases: [typed: string[], offered: string[], not: string[]][] = [
  [['keyhook', ''], ['serve', 'keys', 'webhooks', 'org', '--help'], ['create']],
  [['keyhook', 'web'], ['webhooks'], ['serve']],
  [['keyhook', 'keys', ''], ['create', 'list', 'revoke'], ['serve']],
  [['keyhook', 'keys', 'list', '--'], ['--status', '--json', '--limit'], ['create']],
  [['keyhook', 'keys', 'list', '--status', ''], ['active', 'revoked', 'all'], ['--json']],
  [['keyhook', 'keys', 'list', '--status', 'all', '--l'], ['--limit'], ['--json']],
]

const check = (complete: (typed: string[]) => string[]): void => {
  for (const [typed, offered, not] of cases) {
    const words = complete(typed)
    expect(words, typed.join(' ')).toEqual(expect.arrayContaining(offered))
    for (const word of not) expect(words, typed.join(' ')).not.toContain(word)
  }
}

const linesOf = (output: Buffer): string[] =>
  output
    .toString()
    .split('\n')
    .map((line) => line.split('\t')[0]!)
    .filter((line) => line !== '')

test('bash completes commands, options and their values', async () => {
  const file = await scriptFile('bash')
  check((typed) => {
    const program = `source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _keyhook; printf '%s\\n' "\${COMPREPLY[@]}"`
    return linesOf(execFileSync('bash', ['--norc', '-c', program, 'bash', file, ...typed]))
  })
})

test.skipIf(!isInstalled('zsh'))('zsh completes commands, options and their values', async () => {
  const file = await scriptFile('zsh')
  check((typed) => {
    // The functions of the completion system print what they would offer.
    const program = `
      compdef() { }
      compadd() { shift; print -l -- "$@" }
      _describe() { local entry; for entry in "\${(@P)2}"; do print -- "\${entry%%:*}"; done }
      source "$1"; shift; words=("$@"); CURRENT=$#; _keyhook`
    const last = typed.at(-1)!
    return linesOf(execFileSync('zsh', ['-f', '-c', program, 'zsh', file, ...typed])).filter((word) =>
      word.startsWith(last),
    )
  })
})

test.skipIf(!isInstalled('fish'))('fish completes commands, options and their values', async () => {
  const file = await scriptFile('fish')
  check((typed) => {
    const words = linesOf(
      execFileSync('fish', ['--no-config', '-c', `source ${file}; complete -C '${typed.join(' ')}'`]),
    )
    // fish offers options only after a dash.
    return typed.at(-1) === '' ? [...words, '--help'] : words
  })
})

test('a shell without a script is refused', async () => {
  const ended = await keyhookHere(['completion', 'tcsh'], {})
  expect([ended.code, ended.stderr]).toEqual([2, expect.stringContaining('Allowed choices are bash, zsh, fish')])
})
