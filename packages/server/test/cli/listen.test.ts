import { spawn } from 'node:child_process'
import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { request } from 'node:https'
import { join } from 'node:path'
import { connect } from 'node:tls'
import { expect, onTestFinished, test } from 'vitest'
import { deliverySettings } from '../../src/settings/delivery-settings.ts'
import { cleanEnvironment, keyhook, program, scratchDirectory } from '../support/processes.ts'

/** The real command and its output; stopped when the test ends. */
async function listening(dataDir: string, ...more: string[]) {
  const env = cleanEnvironment({ KEYHOOK_DATA_DIR: dataDir })
  const child = spawn(process.execPath, [program, 'listen', '--port', '0', ...more], { env })
  const closed = once(child, 'close')
  onTestFinished(async () => {
    child.kill()
    await closed
  })
  let [stderr, stdout] = ['', '']
  child.stderr.setEncoding('utf8').on('data', (chunk) => {
    stderr += chunk
  })
  child.stdout.setEncoding('utf8').on('data', (chunk) => {
    stdout += chunk
  })
  await expect.poll(() => stderr, { timeout: 20_000 }).toContain('CA_FILE')
  const ca = await readFile(/CA_FILE=(\S+)/.exec(stderr)![1]!)
  const url = new URL(/https:\S+:\d+/.exec(stderr)![0])
  return {
    ca,
    url,
    stderr: () => stderr,
    stdout: () => stdout,
    /** Returns the status after the whole body was sent: the response may come earlier. */
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

test('control characters in a delivery are escaped, and a missing secret file is named', async () => {
  const dataDir = await scratchDirectory()
  const { deliver, stdout } = await listening(dataDir, '--secret-file', join(dataDir, 'typo'))
  await deliver('{"a":"\x1b]0;owned\x07\r\x9b2J"}\n')
  await expect.poll(stdout, { timeout: 20_000 }).toContain('}')
  expect(stdout()).toBe(
    `invoice.paid  (signature not checked: there is no file ${join(dataDir, 'typo')})\n` +
      '  {"a":"\\x1b]0;owned\\x07\\x0d\\x9b2J"}\n\n',
  )
})

test('the receiver survives a sender that closes the connection early', async () => {
  const { url, ca, deliver, stdout, stderr } = await listening(await scratchDirectory())
  const socket = connect({ host: url.hostname, port: Number(url.port), ca })
  await once(socket, 'secureConnect')
  await new Promise((sent) => socket.write('POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nabc', sent))
  socket.destroy()
  expect(await deliver('{}')).toBe(204)
  expect(await deliver('{}')).toBe(204)
  await expect.poll(stdout, { timeout: 20_000 }).toBe('invoice.paid  (signature not checked)\n  {}\n'.repeat(2))
  expect(stderr()).not.toContain('Error')
})

test('a secret file that is created later is used, and one that cannot be read is named with the delivery', async () => {
  const dataDir = await scratchDirectory()
  const file = join(dataDir, 'webhook.secret')
  const { deliver, stdout } = await listening(dataDir, '--secret-file', file)
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
  await expect.poll(stdout, { timeout: 20_000 }).toBe(lines.join(''))
})

test('the largest event that settings allow is received; a larger one is rejected and reported', async () => {
  const { deliver, stdout } = await listening(await scratchDirectory(), '--json')
  const most = Number(/\d+$/.exec(deliverySettings.eventBytesMax.parse.takes!)![0])
  const envelope = {
    id: 'x'.repeat(128),
    type: 'x'.repeat(64),
    created_at: 'x'.repeat(30),
    organization_id: 'x'.repeat(30),
  }
  const largest = JSON.stringify({ ...envelope, data: { a: 'x'.repeat(most - '{"a":""}'.length) } })
  expect(await deliver(largest)).toBe(204)
  await expect.poll(stdout, { timeout: 20_000 }).toContain('\n')
  expect(JSON.parse(stdout())).toEqual({ event: 'invoice.paid', signature: 'unchecked', why: null, body: largest })
  expect(await deliver('x'.repeat(16 * most))).toBe(413)
  await expect.poll(() => stdout().split('\n'), { timeout: 20_000 }).toHaveLength(3)
  expect(JSON.parse(stdout().split('\n')[1]!)).toEqual({
    event: 'invoice.paid',
    refused: expect.stringMatching(/^a body of more than \d+ bytes$/),
  })
})

test('an unreadable secret file and a data directory that cannot hold the certificate are one line each', async () => {
  const dataDir = await scratchDirectory()
  const listen = (...more: string[]) => keyhook(['listen', '--port', '0', ...more], { KEYHOOK_DATA_DIR: dataDir })
  const unreadable = await listen('--secret-file', dataDir)
  expect([unreadable.code, unreadable.stdout, unreadable.stderr]).toEqual([
    2,
    '',
    `--secret-file: ${dataDir} cannot be read (EISDIR).\n`,
  ])
  // Root can write to a read-only directory; a file in its place stops every user.
  await writeFile(join(dataDir, 'listen'), '')
  const unkept = await listen()
  expect([unkept.code, unkept.stdout, unkept.stderr]).toEqual([
    2,
    '',
    expect.stringMatching(/^KEYHOOK_DATA_DIR: the certificate cannot be kept in [^\n]+\/listen \(ENOTDIR[^\n]+\)\.\n$/),
  ])
})
