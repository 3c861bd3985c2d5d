import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, symlink } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { removeDataDirectory } from '../support/data-directory.ts'
import { type Block, blocksOf, masked } from './blocks.ts'

const root = fileURLToPath(new URL('../../../..', import.meta.url))
const patient = { timeout: 60_000 }
let folder: string
let readme: Block[]
const terminals: Terminal[] = []

/** Replaces the ports of a page by free ones. */
let withFreePorts: (text: string) => string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'keyhook-readme-'))
  for (const name of ['node_modules', 'package.json', 'packages']) await symlink(join(root, name), join(folder, name))
  readme = blocksOf(await readFile(join(root, 'README.md'), 'utf8'))
  const [api, receiver] = [await freePort(), await freePort()]
  withFreePorts = (text) =>
    text
      .replaceAll('127.0.0.1:8080', `127.0.0.1:${api}`)
      .replaceAll('127.0.0.1:9443', `127.0.0.1:${receiver}`)
      .replaceAll('keyhook receive', `keyhook receive --port ${receiver}`)
      .replaceAll('npm start', `PORT=${api} npm start`)
})

afterAll(async () => {
  for (const { child } of terminals.reverse()) {
    if (isGroupAlive(child.pid!)) process.kill(-child.pid!, 'SIGINT')
    // npm may end before the server does, and files can be removed only after the last process of the group.
    while (isGroupAlive(child.pid!)) await setTimeout(50)
  }
  await removeDataDirectory(join(folder, '.keyhook'))
  await rm(folder, { recursive: true, force: true })
})

test('the tour works when pasted, and prints what the README shows', { timeout: 120_000 }, async () => {
  const receiver = openTerminal(blockAbout('terminal=receiver').text)
  await expect.poll(receiver.output, patient).toContain('CA_FILE')
  const server = openTerminal(blockAbout('terminal=server').text)
  await expect.poll(server.output, patient).toContain('Ctrl-C stops')
  const lines = server.output().match(/^ +(ORG|TOKEN)=.+$/gm)!
  expect(lines).toHaveLength(2)
  const shell = openTerminal()
  await shell.paste(lines.join('\n'))
  for (const [i, block] of readme.entries()) {
    if (isPasted(block)) {
      const output = await shell.paste(block.text)
      expect(masked(output), block.text).toBe(masked(outputOf(readme, i) ?? ''))
    }
    if (block.about !== 'receiver') continue
    await expect.poll(() => masked(receiver.output()), patient).toContain(masked(block.text))
    // The receiver prints a delivery before the server has recorded its outcome.
    await expect.poll(server.output, patient).toContain('"delivery.attempted"')
  }
})

test.for(['docs/api-keys.md', 'docs/operating.md', 'docs/your-platform.md'])(
  'the commands of %s work when pasted, and print what the page shows',
  { timeout: 60_000 },
  async (page) => {
    const blocks = blocksOf(await readFile(join(root, page), 'utf8'))
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

const blockAbout = (about: string): Block => readme.find((block) => block.about === about)!

const isPasted = ({ language, about }: Block): boolean => language === 'sh' && about === ''

/** The output that a page shows directly below a block of commands. */
function outputOf(blocks: readonly Block[], i: number): string | null {
  const next = blocks[i + 1]
  return next !== undefined && ['text', 'json'].includes(next.language) && next.about === '' ? next.text : null
}

type Terminal = { child: ChildProcess; output(): string; paste(script: string): Promise<string> }

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
const environment = () =>
  Object.fromEntries(
    Object.entries(process.env).filter(
      ([name]) => !/^(npm_|VITEST|TEST|KEYHOOK_|DATABASE_URL|NODE_ENV|PORT)/.test(name),
    ),
  )

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  server.close()
  return port
}
