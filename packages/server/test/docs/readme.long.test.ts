import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { removeDataDirectory } from '../kit/data-directory.ts'
import { freePort } from '../kit/free-port.ts'
import { until } from '../kit/until.ts'
import { type Block, blocksOf, masked } from './blocks.ts'

const root = fileURLToPath(new URL('../../../..', import.meta.url))
let folder: string
const terminals: Terminal[] = []

/** Replaces the ports of a page by free ones. */
let withFreePorts: (text: string) => string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'keyhook-readme-'))
  for (const name of ['node_modules', 'package.json', 'packages']) await symlink(join(root, name), join(folder, name))
  const [api, program] = [await freePort(), await freePort()]
  withFreePorts = (text) =>
    text
      .replaceAll('localhost:8080', `localhost:${api}`)
      .replaceAll('localhost:3000', `localhost:${program}`)
      .replaceAll('.listen(3000', `.listen(${program}`)
      .replaceAll('npm start', `PORT=${api} npm start`)
})

afterAll(async () => {
  for (const { child } of terminals.reverse()) {
    if (isGroupAlive(child.pid!)) process.kill(-child.pid!, 'SIGINT')
    // npm may end before the server does, and files can be removed only after the last process of the group.
    await until(() => !isGroupAlive(child.pid!))
  }
  await removeDataDirectory(join(folder, '.keyhook'))
  await rm(folder, { recursive: true, force: true })
})

test('the demo prints what the README shows, and leaves nothing behind', async () => {
  const blocks = await blocksIn('README.md')
  const [command, shown] = ['sh', 'text'].map((language) => blocks.find(isAbout('demo', language))!.text)
  expect(command).toBe('npm ci && npx keyhook demo\n')
  const demo = openTerminal('exec npx keyhook demo')
  // In a new checkout it builds the console first.
  await expect.poll(demo.output, { timeout: 150_000 }).toContain('The API reference:')
  expect(masked(demo.stdout())).toBe(masked(shown!))
  const [home] = /\/\S*keyhook-demo-\w+/.exec(demo.output())!
  await expect(stat(home)).resolves.toBeDefined()
  process.kill(-demo.child.pid!, 'SIGINT')
  await until(() => !isGroupAlive(demo.child.pid!))
  await expect(stat(home)).rejects.toThrow('ENOENT')
})

test('the quick start works when pasted, and prints what it shows', async () => {
  const blocks = await blocksIn('docs/quick-start.md')
  const server = openTerminal(blocks.find(isAbout('terminal=server'))!.text)
  await expect.poll(server.output).toContain('Ctrl-C stops')
  const [login] = /^ +npx keyhook token issue .+$/m.exec(server.output())!
  const shell = openTerminal()
  await shell.paste(login)
  const terminals: Record<string, Terminal> = {}
  for (const block of blocks) {
    const [, name] = /^terminal=(program|listen)$/.exec(block.about) ?? []
    if (block.about.startsWith('file=')) {
      const file = join(folder, block.about.slice(5))
      await writeFile(file, withFreePorts(block.text))
    } else if (name !== undefined) {
      terminals[name] = openTerminal(block.text)
      await expect.poll(terminals[name].output).toContain(name === 'program' ? 'ready' : 'Ctrl-C stops')
    } else if (isPasted(block)) await shell.paste(block.text)
    else if (terminals[block.about] !== undefined)
      await expect.poll(() => masked(terminals[block.about]!.output())).toContain(masked(block.text))
  }
  expect(Object.keys(terminals)).toEqual(['program', 'listen'])
})

test.for(['docs/terminal.md', 'docs/api-keys.md', 'docs/operating.md', 'docs/your-platform.md'])(
  'the commands of %s work when pasted, and print what the page shows',
  async (page) => {
    const blocks = await blocksIn(page)
    expect(blocks.filter(isPasted).length).toBeGreaterThan(0)
    const shell = openTerminal()
    for (const [i, block] of blocks.entries()) {
      if (!isPasted(block)) continue
      // npx takes a second each time, and the tour has shown that it works.
      const output = await shell.paste(block.text.replaceAll('npx ', 'node_modules/.bin/'))
      const shown = outputOf(blocks, i)
      if (shown !== null) expect(masked(output), block.text).toBe(masked(shown))
    }
  },
)

const blocksIn = async (page: string): Promise<Block[]> => blocksOf(await readFile(join(root, page), 'utf8'))

const isAbout =
  (about: string, language = 'sh') =>
  (block: Block) =>
    block.about === about && block.language === language

const isPasted = ({ language, about }: Block): boolean => language === 'sh' && about === ''

/** The output that a page shows directly below a block of commands. */
function outputOf(blocks: readonly Block[], i: number): string | null {
  const next = blocks[i + 1]
  return next !== undefined && ['text', 'json'].includes(next.language) && next.about === '' ? next.text : null
}

type Terminal = { child: ChildProcess; output(): string; stdout(): string; paste(script: string): Promise<string> }

/** A shell in the checkout that runs one script, or takes scripts one by one and stops at the first error. */
function openTerminal(script?: string): Terminal {
  const args = script === undefined ? ['-eu', '-o', 'pipefail'] : ['-c', withFreePorts(script)]
  const child = spawn('bash', args, { cwd: folder, env: environment(), detached: true })
  const ended = once(child, 'close')
  let [output, stdout] = ['', '']
  child.stdout.setEncoding('utf8').on('data', (chunk) => {
    output += chunk
    stdout += chunk
  })
  child.stderr.setEncoding('utf8').on('data', (chunk) => {
    output += chunk
  })
  let pasted = 0
  const terminal: Terminal = {
    child,
    output: () => output,
    stdout: () => stdout,
    async paste(text) {
      pasted += 1
      const end = `=== end of block ${pasted} ===`
      const start = stdout.length
      child.stdin.write(`${withFreePorts(text)}\necho '${end}'\n`)
      const printed = async () => {
        while (!stdout.includes(end)) await setTimeout(20)
      }
      await Promise.race([printed(), ended])
      expect(stdout, output).toContain(end)
      return stdout.slice(start, stdout.indexOf(end))
    },
  }
  terminals.push(terminal)
  return terminal
}

function isGroupAlive(leader: number): boolean {
  try {
    return process.kill(-leader, 0)
  } catch {
    return false
  }
}

/** The environment of a terminal, without the variables of this test run. */
const environment = () => ({
  ...Object.fromEntries(
    Object.entries(process.env).filter(
      ([name]) => !/^(npm_|VITEST|TEST|KEYHOOK_|DATABASE_URL|NODE_ENV|PORT)/.test(name),
    ),
  ),
  XDG_CONFIG_HOME: join(folder, 'config'),
  XDG_STATE_HOME: join(folder, 'state'),
})
