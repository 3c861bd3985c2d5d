import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { createCustomerPrograms, customerCommands } from '../src/customer-commands.ts'
import { runCommandLine } from '../src/program.ts'

/** One command of the program of this package, without the server. */
async function run(args: string[], environment: Record<string, string> = {}) {
  const home = await mkdtemp(join(tmpdir(), 'keyhook-cli-'))
  onTestFinished(() => rm(home, { recursive: true, force: true }))
  const settings = { KEYHOOK_URL: '', KEYHOOK_TOKEN: '', KEYHOOK_ORG: '', XDG_CONFIG_HOME: home, ...environment }
  for (const [name, value] of Object.entries(settings)) vi.stubEnv(name, value)
  const shown = { stdout: '', stderr: '' }
  const spies = (['stdout', 'stderr'] as const).map((name) =>
    vi.spyOn(process[name], 'write').mockImplementation((text) => {
      shown[name] += String(text)
      return true
    }),
  )
  try {
    const code = await runCommandLine(createCustomerPrograms('1.2.3'), args)
    return { code, ...shown }
  } finally {
    for (const spy of spies) spy.mockRestore()
    vi.unstubAllEnvs()
  }
}

test('the help lists the commands for customers and no others', async () => {
  const { code, stdout } = await run(['--help'])
  const listed = [...stdout.matchAll(/^ {2}([a-z]+) {2,}/gm)].map(([, name]) => name)
  expect([code, listed]).toEqual([0, customerCommands.map(({ name }) => name)])
  expect(await run(['help', 'keys', 'create'])).toMatchObject({ code: 0, stdout: expect.stringContaining('--name') })
  expect(await run(['--version'])).toEqual({ code: 0, stdout: '1.2.3\n', stderr: '' })
})

test('an error is explained in a sentence, and its exit code tells what kind it is', async () => {
  expect(await run(['keys', 'lst'])).toMatchObject({ code: 2, stderr: expect.stringContaining('Did you mean list?') })
  expect(await run(['serve'])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("There is no command 'serve'."),
  })
  expect(await run(['keys', 'list'])).toMatchObject({
    code: 3,
    stderr: expect.stringMatching(/^You are not logged in/),
  })
  const unreachable = { KEYHOOK_URL: 'http://127.0.0.1:1', KEYHOOK_TOKEN: 'x', KEYHOOK_ORG: 'org_x' }
  expect(await run(['keys', 'create', '--name', 'ci'], unreachable)).toMatchObject({
    code: 1,
    stdout: '',
    stderr: expect.stringMatching(/^The server cannot be reached: .+\n.+\n$/),
  })
})

test('a command that waits because of too many requests says so, and then why it has failed', async () => {
  const server = createServer((_, response) => {
    const problem = { code: 'request.rate_limited', detail: 'This API key has sent 5 requests in this minute.' }
    response.writeHead(429, { 'content-type': 'application/problem+json', 'retry-after': '1' })
    response.end(JSON.stringify(problem))
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  onTestFinished(() => void server.close())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const { code, stderr } = await run(['keys', 'list'], { KEYHOOK_URL: url, KEYHOOK_TOKEN: 'x', KEYHOOK_ORG: 'org_x' })
  expect(code).toBe(2)
  expect(stderr.split('\n')).toEqual([
    ...Array(3).fill('Too many requests. The server asks to wait 1 seconds.'),
    'This API key has sent 5 requests in this minute.',
    'Send fewer requests in a minute, or ask an operator for a higher limit.',
    '',
  ])
})

test('the completion script has every command of this program, and no other', async () => {
  const { stdout } = await run(['completion', 'bash'])
  expect(stdout).toContain('"keys create")')
  expect(stdout).not.toContain('serve')
})

test('the code that verifies deliveries is printed', async () => {
  expect(await run(['webhooks', 'code', 'python'])).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('hmac.compare_digest'),
  })
})

test.each([
  [204, 0, 'The endpoint accepted the test event (204).\n', ''],
  [500, 1, '', 'The endpoint did not accept the test event (500).\n'],
])('webhooks test --wait shows the answer %i and exits with %i', async (response_status, code, stdout, stderr) => {
  const attempt = { status: code === 0 ? 'succeeded' : 'failed', response_status, error_code: null }
  const event = { id: 'evt_1', delivered_to: [{ webhook_id: 'wh_1', attempts: [attempt] }] }
  const server = createServer((request, response) => {
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify(request.method === 'POST' ? { event_id: 'evt_1' } : event))
  }).listen(0, '127.0.0.1')
  onTestFinished(() => void server.close())
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const args = ['webhooks', 'test', `wh_${'0'.repeat(26)}`, '--event', 'invoice.paid', '--wait']
  const environment = { KEYHOOK_URL: url, KEYHOOK_TOKEN: 'x', KEYHOOK_ORG: 'org_x' }
  expect(await run(args, environment)).toEqual({ code, stdout, stderr })
  expect(await run([...args, '--json'], environment)).toEqual({ code, stdout: `${JSON.stringify(event)}\n`, stderr })
})
