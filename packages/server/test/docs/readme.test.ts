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
let folder: string
let blocks: Block[]
const terminals: { child: ChildProcess; output(): string }[] = []

/** The README's ports and paths stand for whatever is free where the test runs. */
let here: (text: string) => string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'keyhook-readme-'))
  for (const name of ['node_modules', 'package.json', 'packages']) await symlink(join(root, name), join(folder, name))
  blocks = blocksOf(await readFile(join(root, 'README.md'), 'utf8'))
  const [api, receiver] = [await freePort(), await freePort()]
  here = (text) =>
    text
      .replaceAll('127.0.0.1:8080', `127.0.0.1:${api}`)
      .replaceAll('127.0.0.1:9443', `127.0.0.1:${receiver}`)
      .replaceAll('keyhook listen', `keyhook listen --port ${receiver}`)
      .replaceAll('npm start', `PORT=${api} npm start`)
})

afterAll(async () => {
  for (const { child } of terminals.reverse()) {
    process.kill(-child.pid!, 'SIGINT')
    // The shell may be gone long before what it started: the files go only when the last of the group has ended.
    while (isGroupAlive(child.pid!)) await setTimeout(50)
  }
  await removeDataDirectory(join(folder, '.keyhook'))
  await rm(folder, { recursive: true, force: true })
})

test('the tour works when it is pasted, and prints what the README says', { timeout: 120_000 }, async () => {
  const receiver = await openTerminal('receiver', /Listening on/)
  await openTerminal('server', /Keyhook is ready/)
  const script = scriptOf(blocks)
  const outputs = await paste(script.map((block) => here(block.text)))
  for (const [i, { text, printed }] of script.entries()) expect(masked(outputs[i]!), text).toBe(masked(printed))
  const arrived = blocks.find((block) => block.about === 'receiver')!
  expect(masked(receiver())).toContain(masked(arrived.text))
})

test.for(['docs/operating.md', 'docs/your-platform.md'])(
  'the lines of %s work when they are pasted',
  {
    timeout: 60_000,
  },
  async (page) => {
    const script = scriptOf(blocksOf(await readFile(join(root, page), 'utf8')))
    expect(script.length).toBeGreaterThan(0)
    const outputs = await paste(script.map((block) => here(block.text)))
    for (const [i, { text, printed }] of script.entries())
      if (printed !== '') expect(masked(outputs[i]!), text).toBe(masked(printed))
  },
)

/** What is pasted, and what is printed by it according to the page. */
function scriptOf(all: readonly Block[]): { text: string; printed: string }[] {
  return all.flatMap(({ language, about, text }, i) => {
    if (language !== 'sh' || about !== '') return []
    const next = all[i + 1]
    const isPrinted = next !== undefined && ['text', 'json'].includes(next.language) && next.about === ''
    return [{ text, printed: isPrinted ? next.text : '' }]
  })
}

/** One shell for all blocks, as a person would have; each ends with a mark, so that outputs can be told apart. */
async function paste(scripts: string[]): Promise<string[]> {
  const mark = '=== end of block ==='
  const shell = spawn(
    'bash',
    ['-eu', '-o', 'pipefail', '-c', scripts.map((text) => `${text}\necho '${mark}'`).join('\n')],
    {
      cwd: folder,
      env: environment(),
    },
  )
  let output = ''
  let complaints = ''
  shell.stdout.on('data', (chunk) => {
    output += chunk
  })
  shell.stderr.on('data', (chunk) => {
    complaints += chunk
  })
  const [code] = await once(shell, 'close')
  expect(code, `${output}\n${complaints}`).toBe(0)
  return output.split(`${mark}\n`)
}

/** A terminal of its own, left open; ready once it has printed what we wait for. */
async function openTerminal(name: string, ready: RegExp): Promise<() => string> {
  const block = blocks.find((one) => one.about === `terminal=${name}`)!
  const child = spawn('bash', ['-c', here(block.text)], { cwd: folder, env: environment(), detached: true })
  let output = ''
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const onData = (chunk: Buffer) => {
    output += chunk
    if (ready.test(output)) resolve()
  }
  child.stdout.on('data', onData)
  child.stderr.on('data', onData)
  child.once('exit', () => reject(new Error(`${name} ended: ${output}`)))
  terminals.push({ child, output: () => output })
  await promise
  return () => output
}

function isGroupAlive(leader: number): boolean {
  try {
    return process.kill(-leader, 0)
  } catch {
    return false
  }
}

/** As in a terminal that knows nothing of this test run. */
const environment = () =>
  Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/^(npm_|VITEST|KEYHOOK_|DATABASE_URL|NODE_ENV|PORT)/.test(name)),
  )

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  server.close()
  return port
}
