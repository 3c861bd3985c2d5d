import { spawn } from 'node:child_process'
import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { request } from 'node:https'
import { join } from 'node:path'
import { connect } from 'node:tls'
import { expect, onTestFinished, test } from 'vitest'
import { deliverySettings } from '../../src/settings/delivery-settings.ts'
import { mintWebhookSecret } from '../../src/webhooks/rules.ts'
import { cleanEnvironment, keyhookHere, program, scratchDirectory } from '../kit/processes.ts'
import { ownersTerminal } from './support/terminal.ts'

/** The real command and its output; stopped when the test ends. */
async function receiving(state: string, ...more: string[]) {
  const env = cleanEnvironment({ XDG_STATE_HOME: state })
  const child = spawn(process.execPath, [program, 'receive', '--no-register', '--port', '0', ...more], { env })
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
  await expect.poll(() => stderr).toContain('CA_FILE')
  const ca = await readFile(/CA_FILE=(\S+)/.exec(stderr)![1]!)
  const url = new URL(/https:\S+:\d+/.exec(stderr)![0])
  return {
    ca,
    url,
    stderr: () => stderr,
    stdout: () => stdout,
    async stop() {
      child.kill()
      await closed
    },
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

const event = (n: number) => `{"id":"evt_${n}","type":"invoice.paid","timestamp":"2026-11-17T12:00:00.000Z","data":{}}`
const withoutTimes = (text: string) => text.replace(/^\d\d:\d\d:\d\d/gm, '<time>')

test('control characters in a delivery are escaped, and a missing secret file is named', async () => {
  const dataDir = await scratchDirectory()
  const { deliver, stdout } = await receiving(dataDir, '--secret-file', join(dataDir, 'typo'))
  await deliver('{"a":"\x1b]0;owned\x07\r\x9b2J"}\n')
  await expect.poll(stdout).toContain('}')
  expect(withoutTimes(stdout())).toBe(
    `<time>  invoice.paid  signature not checked: there is no file ${join(dataDir, 'typo')}  answered 204\n` +
      '  {"a":"\\x1b]0;owned\\x07\\x0d\\x9b2J"}\n  \n',
  )
})

test('the receiver survives a sender that closes the connection early', async () => {
  const { url, ca, deliver, stdout, stderr } = await receiving(await scratchDirectory())
  const socket = connect({ host: url.hostname, port: Number(url.port), ca })
  await once(socket, 'secureConnect')
  await new Promise((sent) => socket.write('POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nabc', sent))
  socket.destroy()
  expect(await deliver('{}')).toBe(204)
  expect(await deliver('{}')).toBe(204)
  const line = '<time>  invoice.paid  signature not checked  answered 204\n  {}\n'
  await expect.poll(() => withoutTimes(stdout())).toBe(line.repeat(2))
  expect(stderr()).not.toContain('Error')
})

test('a secret file that is created later is used, and one that cannot be read is named with the delivery', async () => {
  const dataDir = await scratchDirectory()
  const file = join(dataDir, 'webhook.secret')
  const { deliver, stdout } = await receiving(dataDir, '--secret-file', file)
  expect(await deliver(event(1))).toBe(204)
  const [good, other] = [mintWebhookSecret(), mintWebhookSecret()]
  await writeFile(file, `${good}\n`)
  expect(await deliver(event(2), signed(good, event(2)))).toBe(204)
  expect(await deliver(event(3), signed(other, event(3)))).toBe(401)
  await rm(file)
  await mkdir(file)
  expect(await deliver(event(4))).toBe(204)
  const verdicts = [
    expect.stringContaining(`signature not checked: there is no file ${file}  answered 204`),
    expect.stringContaining('signature verified  answered 204'),
    expect.stringMatching(/SIGNATURE WRONG: .+ {2}answered 401$/),
    expect.stringContaining(`signature not checked: ${file} cannot be read (EISDIR)  answered 204`),
  ]
  const heads = () => stdout().match(/^\d\d:.*$/gm)
  await expect.poll(heads).toEqual(verdicts)
  expect(stdout()).toContain('  {\n    "id": "evt_2",\n    "type": "invoice.paid",')
})

test('the largest event that settings allow is received; a larger one is rejected and reported', async () => {
  const { deliver, stdout } = await receiving(await scratchDirectory(), '--json')
  const most = Number(/\d+$/.exec(deliverySettings.eventBytesMax.parse.takes!)![0])
  const envelope = {
    id: 'x'.repeat(128),
    type: 'x'.repeat(64),
    created_at: 'x'.repeat(30),
    organization_id: 'x'.repeat(30),
  }
  const largest = JSON.stringify({ ...envelope, data: { a: 'x'.repeat(most - '{"a":""}'.length) } })
  expect(await deliver(largest)).toBe(204)
  await expect.poll(stdout).toContain('\n')
  const [at, id] = [expect.stringMatching(/Z$/), null]
  const facts = { at, id, event: 'invoice.paid' }
  expect(JSON.parse(stdout())).toEqual({ ...facts, answer: 204, signature: 'unchecked', why: null, body: largest })
  expect(await deliver('x'.repeat(16 * most))).toBe(413)
  await expect.poll(() => stdout().split('\n')).toHaveLength(3)
  expect(JSON.parse(stdout().split('\n')[1]!)).toEqual({
    ...facts,
    answer: 413,
    refused: expect.stringMatching(/^a body of more than \d+ bytes$/),
  })
})

test('it fails, hangs and answers slowly on request', async () => {
  const state = await scratchDirectory()
  expect(await (await receiving(state, '--respond', '500')).deliver(event(1))).toBe(500)
  const slow = await receiving(state, '--delay', '1s')
  const startedAt = performance.now()
  expect(await slow.deliver(event(1))).toBe(204)
  expect(performance.now() - startedAt).toBeGreaterThan(900)
  const hanging = await receiving(state, '--hang')
  const sent = hanging.deliver(event(1)).catch(() => 'closed')
  await expect.poll(hanging.stdout).toContain('no answer')
  await hanging.stop()
  expect(await sent).toBe('closed')
})

test('an unreadable secret file and a folder that cannot hold the certificate are one line each', async () => {
  const state = await scratchDirectory()
  const receive = (...more: string[]) => keyhookHere(['receive', '--no-register', ...more], { XDG_STATE_HOME: state })
  const unreadable = await receive('--secret-file', state)
  expect(unreadable).toEqual({ code: 2, stdout: '', stderr: `--secret-file: ${state} cannot be read (EISDIR).\n` })
  const printed = await receive('--print-certificate')
  expect(printed).toEqual({ code: 0, stdout: `${join(state, 'keyhook/receive/certificate.pem')}\n`, stderr: '' })
  await rm(join(state, 'keyhook'), { recursive: true })
  // Root can write to a read-only directory; a file in its place stops every user.
  await writeFile(join(state, 'keyhook'), '')
  const unkept = await receive()
  expect([unkept.code, unkept.stdout]).toEqual([2, ''])
  expect(unkept.stderr).toMatch(/^The certificate cannot be kept in [^\n]+ Set XDG_STATE_HOME to another folder\.\n$/)
})

test('it registers itself as a webhook, and deletes it when it is stopped', async () => {
  const { terminal } = await ownersTerminal()
  const env = cleanEnvironment({ ...terminal.env })
  const child = spawn(process.execPath, [program, 'receive', '--port', '0', '--events', 'invoice.paid'], { env })
  const closed = once(child, 'close')
  let stderr = ''
  child.stderr.setEncoding('utf8').on('data', (chunk) => {
    stderr += chunk
  })
  await expect.poll(() => stderr).toContain('npx keyhook webhooks test wh_')
  const created = await terminal.json<{ action: string; target_id: string }[]>('audit', '--limit', '1')
  expect(created).toMatchObject([{ action: 'webhook.created', target_id: /wh_\w+/.exec(stderr)![0] }])
  child.kill('SIGINT')
  expect(await closed).toEqual([0, null])
  expect(await terminal.json('audit', '--limit', '1')).toMatchObject([
    { action: 'webhook.deleted', target_id: created[0]!.target_id },
  ])
})
