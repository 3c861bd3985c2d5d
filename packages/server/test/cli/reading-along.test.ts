import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import { text } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { program } from '../support/processes.ts'

test('a command whose answer nobody reads to its end says nothing of it', async () => {
  const child = spawn(process.execPath, [program, '--help'])
  child.stdout.destroy()
  const [said, [code]] = await Promise.all([text(child.stderr), once(child, 'close')])
  expect({ said, code }).toEqual({ said: '', code: 0 })
})

test('an answer that cannot be written is a line and a failure, not a stack', async () => {
  const full = openSync('/dev/full', 'w')
  const child = spawn(process.execPath, [program, '--help'], { stdio: ['ignore', full, 'pipe'] })
  closeSync(full)
  const [said, [code]] = await Promise.all([text(child.stderr!), once(child, 'close')])
  expect({ said, code }).toEqual({
    said: 'The output cannot be written: ENOSPC: no space left on device, write\n',
    code: 1,
  })
})
