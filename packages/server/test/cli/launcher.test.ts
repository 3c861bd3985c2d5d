import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, symlink, writeFile } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { scratchDirectory } from '../support/processes.ts'

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

test('npx keyhook is found through a link, as npm makes one', async () => {
  const env = await environmentWithOldNode()
  const link = join(await scratchDirectory(), 'keyhook')
  await symlink(join(bin, 'keyhook'), link)
  expect((await run(link, ['--version'], { env })).stdout).toMatch(/^\d+\.\d+\.\d+\n$/)
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
