import { spawn } from 'node:child_process'
import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { request } from 'node:https'
import { join } from 'node:path'
import { connect } from 'node:tls'
import { expect, onTestFinished, test } from 'vitest'
import { deliverySettings } from '../../src/settings/delivery-settings.ts'
import { keyhook, program, scratchDirectory } from '../support/processes.ts'

/** The real command, and what it shows; ended when the test ends. */
async function listening(dataDir: string, ...more: string[]) {
  const env = { PATH: process.env.PATH, HOME: process.env.HOME, KEYHOOK_DATA_DIR: dataDir } as NodeJS.ProcessEnv
  const child = spawn(process.execPath, [program, 'listen', '--port', '0', ...more], { env })
  const closed = once(child, 'close')
  onTestFinished(async () => {
    child.kill()
    await closed
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
  const url = new URL(/https:\S+:\d+/.exec(said)![0])
  return {
    ca,
    url,
    said: () => said,
    shown: () => shown,
    /** Answers the status, when all has been sent: an answer may come before that. */
    async deliver(body: string, headers: Record<string, string> = {}): Promise<number> {
      const sent = request(url, { method: 'POST', ca, headers: { 'x-service-event': 'invoice.paid', ...headers } })
      const finished = once(sent, 'finish')
      sent.end(body)
      const [response] = await once(sent, 'response')
      response.resume()
      await finished
      return response.statusCode
    },
  }
}

const signed = (secret: string, body: string) => ({
  'x-service-signature': `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`,
})

test('what a stranger sends is shown without what a terminal would obey, and a secret that is not there is named', async () => {
  const dataDir = await scratchDirectory()
  const { deliver, shown } = await listening(dataDir, '--secret-file', join(dataDir, 'typo'))
  await deliver('{"a":"\x1b]0;owned\x07\r\x9b2J"}\n')
  await expect.poll(shown, { timeout: 20_000 }).toContain('}')
  expect(shown()).toBe(
    `invoice.paid  (signature not checked: there is no file ${join(dataDir, 'typo')})\n` +
      '  {"a":"\\x1b]0;owned\\x07\\x0d\\x9b2J"}\n\n',
  )
})

test('the receiver outlives a sender that hangs up half-way', async () => {
  const { url, ca, deliver, shown, said } = await listening(await scratchDirectory())
  const socket = connect({ host: url.hostname, port: Number(url.port), ca })
  await once(socket, 'secureConnect')
  await new Promise((sent) => socket.write('POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nabc', sent))
  socket.destroy()
  expect(await deliver('{}')).toBe(204)
  expect(await deliver('{}')).toBe(204)
  await expect.poll(shown, { timeout: 20_000 }).toBe('invoice.paid  (signature not checked)\n  {}\n'.repeat(2))
  expect(said()).not.toContain('Error')
})

test('a secret that comes later is used, and one that cannot be read any more is named beside the delivery', async () => {
  const dataDir = await scratchDirectory()
  const file = join(dataDir, 'webhook.secret')
  const { deliver, shown } = await listening(dataDir, '--secret-file', file)
  expect(await deliver('1')).toBe(204)
  await writeFile(file, 'whsec_x\n')
  expect(await deliver('2', signed('whsec_x', '2'))).toBe(204)
  expect(await deliver('3', signed('whsec_y', '3'))).toBe(401)
  await rm(file)
  await mkdir(file)
  expect(await deliver('4')).toBe(204)
  const verdicts = [
    `signature not checked: there is no file ${file}`,
    'signature good',
    'SIGNATURE WRONG',
    `signature not checked: ${file} cannot be read (EISDIR)`,
  ]
  const lines = verdicts.map((verdict, at) => `invoice.paid  (${verdict})\n  ${at + 1}\n`)
  await expect.poll(shown, { timeout: 20_000 }).toBe(lines.join(''))
})

test('the largest event that settings allow is received; what is larger is refused, and a line says so', async () => {
  const { deliver, shown } = await listening(await scratchDirectory(), '--json')
  const most = Number(/\d+$/.exec(deliverySettings.eventBytesMax.parse.takes!)![0])
  const envelope = {
    id: 'x'.repeat(128),
    type: 'x'.repeat(64),
    created_at: 'x'.repeat(30),
    organization_id: 'x'.repeat(30),
  }
  const largest = JSON.stringify({ ...envelope, data: { a: 'x'.repeat(most - '{"a":""}'.length) } })
  expect(await deliver(largest)).toBe(204)
  await expect.poll(shown, { timeout: 20_000 }).toContain('\n')
  expect(JSON.parse(shown())).toEqual({ event: 'invoice.paid', signature: 'unchecked', why: null, body: largest })
  expect(await deliver('x'.repeat(16 * most))).toBe(413)
  await expect.poll(() => shown().split('\n'), { timeout: 20_000 }).toHaveLength(3)
  expect(JSON.parse(shown().split('\n')[1]!)).toEqual({
    event: 'invoice.paid',
    refused: expect.stringMatching(/^a body of more than \d+ bytes$/),
  })
})

test('a secret file that cannot be read and a data directory that cannot keep the certificate are mistakes, named in one line', async () => {
  const dataDir = await scratchDirectory()
  const listen = (...more: string[]) => keyhook(['listen', '--port', '0', ...more], { KEYHOOK_DATA_DIR: dataDir })
  const unreadable = await listen('--secret-file', dataDir)
  expect([unreadable.code, unreadable.stdout, unreadable.stderr]).toEqual([
    2,
    '',
    `--secret-file: ${dataDir} cannot be read (EISDIR).\n`,
  ])
  // As root nothing is read-only; a file in the way refuses everybody.
  await writeFile(join(dataDir, 'listen'), '')
  const unkept = await listen()
  expect([unkept.code, unkept.stdout, unkept.stderr]).toEqual([
    2,
    '',
    expect.stringMatching(/^KEYHOOK_DATA_DIR: the certificate cannot be kept in [^\n]+\/listen \(ENOTDIR[^\n]+\)\.\n$/),
  ])
})
