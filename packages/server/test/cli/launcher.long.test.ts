import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import { chmod, copyFile, mkdir, readdir, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { keyhook, program, scratchDirectory } from '../kit/processes.ts'

const bin = new URL('../../bin/', import.meta.url).pathname
const run = promisify(execFile)

/** A PATH as npm 10 leaves it: the first `node` is an old one, and none is linked into node_modules/.bin. */
async function environmentWithOldNode(): Promise<NodeJS.ProcessEnv> {
  const folder = await scratchDirectory()
  await writeFile(join(folder, 'node'), '#!/bin/sh\necho old node\nexit 9\n')
  await chmod(join(folder, 'node'), 0o755)
  const rest = process.env.PATH!.split(delimiter).filter((one) => !one.includes('node_modules'))
  return { PATH: [folder, ...rest].join(delimiter) }
}

test('commands run on the Node that npm ci installed, also where an old Node comes first in PATH', async () => {
  const env = await environmentWithOldNode()
  expect((await run('node', [], { env }).catch((error) => error)).code).toBe(9)
  const { stdout } = await run(join(bin, 'with-node'), ['node', '-p', 'process.version'], { env })
  expect(stdout.trim()).toBe(process.version)
})

test.each([
  ['beside the package', 'node_modules/node-any-os'],
  ['inside of the package', 'node_modules/keyhook/node_modules/node-any-os'],
  ['in a folder further up', '../node_modules/node-any-os'],
])('the Node of an installed package is found %s', async (_, place) => {
  const project = join(await scratchDirectory(), 'project')
  const home = join(project, 'node_modules/keyhook/bin')
  const node = join(project, place, 'bin')
  for (const folder of [home, node]) await mkdir(folder, { recursive: true })
  await copyFile(join(bin, 'with-node'), join(home, 'with-node'))
  await writeFile(join(node, 'node'), '#!/bin/sh\necho the one that npm installed\n', { mode: 0o755 })
  const { stdout } = await run(join(home, 'with-node'), ['node'], { env: await environmentWithOldNode() })
  expect(stdout).toBe('the one that npm installed\n')
})

test('a Node that does not start is reported with what to install', async () => {
  const project = await scratchDirectory()
  const node = join(project, 'node_modules/node-any-os/bin')
  for (const folder of [join(project, 'bin'), node]) await mkdir(folder, { recursive: true })
  await copyFile(join(bin, 'with-node'), join(project, 'bin/with-node'))
  await writeFile(join(node, 'node'), '#!/bin/sh\necho libatomic.so.1: cannot open >&2\nexit 127\n', { mode: 0o755 })
  const ended = await run(join(project, 'bin/with-node'), ['node']).catch((error) => error)
  expect(ended).toMatchObject({ code: 2, stdout: '' })
  expect(ended.stderr).toMatch(/^libatomic\.so\.1: cannot open\n.*apt-get install libatomic1\n$/s)
})

const linked = ['server', 'cli']

// Two packages have a program of this name, and npm links that of @keyhook/cli.
test.each(linked)('npx keyhook is the program with all commands, if npm links that of packages/%s', async (name) => {
  const env = await environmentWithOldNode()
  const link = join(await scratchDirectory(), 'keyhook')
  await symlink(join(bin, '../..', name, 'bin/keyhook'), link)
  expect((await run(link, ['--version'], { env })).stdout).toMatch(/^\d+\.\d+\.\d+\n$/)
  expect((await run(link, ['serve', '--help'], { env })).stdout).toContain('--role')
})

test('the launcher becomes the command: same process, input, exit code and signals', async () => {
  const env = await environmentWithOldNode()
  const start = (script: string) => spawn(join(bin, 'with-node'), ['node', '-e', script], { env })

  const echo = start('process.stdin.pipe(process.stdout); process.exitCode = 7')
  echo.stdin.end('hello')
  const [input] = await once(echo.stdout, 'data')
  expect([String(input), (await once(echo, 'exit'))[0]]).toEqual(['hello', 7])

  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    const waiting = start('console.log(process.pid); setInterval(() => {}, 1_000)')
    const [pid] = await once(waiting.stdout, 'data')
    expect(Number(pid)).toBe(waiting.pid)
    waiting.kill(signal)
    expect(await once(waiting, 'exit')).toEqual([null, signal])
  }
})

const modules = new URL('../../../../node_modules', import.meta.url)
const cache = new URL('node_modules/.cache/keyhook/', new URL('../../../../', import.meta.url))

test('compiled code is cached in node_modules for the next start, if this user owns it', async () => {
  await rm(cache, { recursive: true, force: true, maxRetries: 5 })
  expect(await keyhook(['--help'], {})).toMatchObject({ code: 0, stderr: '' })
  const isOurs = (await stat(modules)).uid === process.getuid!()
  const versions = await readdir(cache).catch(() => [])
  expect(versions.length).toBe(isOurs ? 1 : 0)
  expect(await keyhook(['--help'], {})).toMatchObject({ code: 0, stderr: '' })
})

test('a reader that closes the pipe early causes no error', async () => {
  const child = spawn(process.execPath, [program, '--help'])
  child.stdout.destroy()
  const [stderr, [code]] = await Promise.all([text(child.stderr), once(child, 'close')])
  expect({ stderr, code }).toEqual({ stderr: '', code: 0 })
})

test('output that cannot be written is one line and exit code 1', async () => {
  const full = openSync('/dev/full', 'w')
  const child = spawn(process.execPath, [program, '--help'], { stdio: ['ignore', full, 'pipe'] })
  closeSync(full)
  const [stderr, [code]] = await Promise.all([text(child.stderr!), once(child, 'close')])
  expect({ stderr, code }).toEqual({
    stderr: 'The output cannot be written: ENOSPC: no space left on device, write\n',
    code: 1,
  })
})

test('the help loads only what it needs, which keeps it under 0.4 seconds', async () => {
  const folder = await scratchDirectory()
  const hook = join(folder, 'hook.mjs')
  // Counting modules holds on a busy machine too, where a time would not.
  await writeFile(
    hook,
    `import { registerHooks } from 'node:module'
    const urls = new Set()
    registerHooks({ load(url, context, next) { urls.add(url); return next(url, context) } })
    process.on('exit', () => process.stderr.write([...urls].join('\\n')))`,
  )
  const child = spawn(process.execPath, ['--import', hook, program, '--help'])
  const [stderr, [code]] = await Promise.all([text(child.stderr), once(child, 'close')])
  const files = stderr.split('\n').filter((url) => url.startsWith('file:'))
  expect(code).toBe(0)
  expect(files.some((url) => url.endsWith('/cli/command-line.ts'))).toBe(true)
  expect(files.length).toBeLessThan(40)
  expect(files.filter((url) => /\/(pg|fastify|pino|typebox|packages\/client)\//.test(url))).toEqual([])
})
