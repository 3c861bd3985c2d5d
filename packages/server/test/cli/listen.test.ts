import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { request } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { program } from '../support/processes.ts'

test('what a stranger sends is shown without what a terminal would obey, and a secret that is not there is named', async () => {
  const KEYHOOK_DATA_DIR = await mkdtemp(join(tmpdir(), 'keyhook-listen-'))
  const words = ['listen', '--port', '0', '--secret-file', join(KEYHOOK_DATA_DIR, 'typo')]
  const env = { PATH: process.env.PATH, HOME: process.env.HOME, KEYHOOK_DATA_DIR } as NodeJS.ProcessEnv
  const child = spawn(process.execPath, [program, ...words], { env })
  onTestFinished(async () => {
    child.kill()
    await once(child, 'close')
    await rm(KEYHOOK_DATA_DIR, { recursive: true })
  })
  let [said, shown] = ['', '']
  child.stderr.setEncoding('utf8').on('data', (chunk) => {
    said += chunk
  })
  child.stdout.setEncoding('utf8').on('data', (chunk) => {
    shown += chunk
  })
  await expect.poll(() => said, { timeout: 20_000 }).toContain('CA_FILE')
  const ca = await readFile(/CA_FILE=(\S+)/.exec(said)![1]!)
  const url = /https:\S+:\d+/.exec(said)![0]
  const headers = { 'x-service-event': 'invoice.paid' }
  request(url, { method: 'POST', ca, headers }).end('{"a":"\x1b]0;owned\x07\r\x9b2J"}\n')
  await expect.poll(() => shown, { timeout: 20_000 }).toContain('}')
  expect(shown).toBe(
    `invoice.paid  (signature not checked: there is no file ${join(KEYHOOK_DATA_DIR, 'typo')})\n` +
      '  {"a":"\\x1b]0;owned\\x07\\x0d\\x9b2J"}\n\n',
  )
})
