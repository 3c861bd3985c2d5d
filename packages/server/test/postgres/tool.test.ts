import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'

test('Ctrl-C does not reach the programs that Keyhook runs; they and their children end with Keyhook', async () => {
  // A number that no other process has as an argument.
  const marker = `600.${process.pid}`
  const runner = join(import.meta.dirname, 'support/tool-runner.ts')
  // Its own process group, as in a terminal.
  const child = spawn(process.execPath, [runner, `sleep ${marker} & wait`], { detached: true })
  const ended = once(child, 'close')
  onTestFinished(async () => {
    child.kill('SIGKILL')
    await ended
  })
  const programs = async () => {
    const { stdout } = await promisify(execFile)('ps', ['-eo', 'args'])
    const lines = stdout.split('\n').filter((line) => line.includes(marker) && !line.includes(runner))
    return lines.map((line) => line.split(' ')[0]).sort()
  }
  const both = ['/bin/sh', 'sleep']
  await expect.poll(programs).toEqual(both)
  process.kill(-child.pid!, 'SIGINT')
  await once(child.stdout, 'data')
  await sleep(300)
  expect(await programs()).toEqual(both)
  child.kill('SIGUSR2')
  await ended
  await expect.poll(programs).toEqual([])
})
