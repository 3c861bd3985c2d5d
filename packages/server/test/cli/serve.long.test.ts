import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdir, rename, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { mintApiKey } from '../../src/lib/secrets.ts'
import { call } from '../kit/client.ts'
import { removeDataDirectory } from '../kit/data-directory.ts'
import { createInstallation, people } from '../kit/installation.ts'
import { bridgeTo, keyhook, scratchDirectory, serve } from '../kit/processes.ts'
import { openRaw, sendRaw } from '../kit/raw-http.ts'

const checkout = new URL('../../../../', import.meta.url).pathname
const bash = promisify(execFile)

/** A database of the tests' PostgreSQL as DATABASE_URL, with users in it. */
async function external() {
  const masterKey = randomBytes(32).toString('base64')
  const installation = await createInstallation({ KEYHOOK_MASTER_KEY: masterKey })
  onTestFinished(() => installation.close())
  const bridge = await bridgeTo(installation.target)
  const environment = { DATABASE_URL: bridge.url, KEYHOOK_MASTER_KEY: masterKey }
  return { ...installation, ...people(installation), ...bridge, environment }
}

test('the lines of a first start work when pasted, and a second start finds everything', {
  timeout: 90_000,
}, async () => {
  // Pasted lines have to work with a space in the path.
  const dataDir = join(await scratchDirectory(), 'key hook')
  onTestFinished(() => removeDataDirectory(dataDir))
  await mkdir(dataDir)
  const environment = { KEYHOOK_DATA_DIR: dataDir }

  const first = await serve(environment, [])
  const welcome = first.output().stdout
  const url = /Keyhook is ready at (\S+)/.exec(welcome)![1]!
  const orgId = /ORG=(org_\w+)/.exec(welcome)![1]!
  expect(welcome).toContain('This is the first start')
  const pasted = welcome
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => /^(ORG=|TOKEN=|curl )/.test(line))
  expect(pasted).toHaveLength(5)
  const script = pasted.map((line) => line.replace(/^curl/, 'curl -sS -w "\\n%{http_code}\\n"')).join('\n')
  const { stdout } = await bash('bash', ['-c', script], { cwd: checkout })
  const answers = stdout.trim().split('\n')
  expect(answers.filter((_, i) => i % 2 === 1)).toEqual(['200', '201', '201'])
  const [organizations, key, hook] = answers.filter((_, i) => i % 2 === 0).map((text) => JSON.parse(text))
  expect(organizations.map((one: { id: string }) => one.id)).toEqual([orgId])
  expect(Object.keys(key)).toEqual(['id', 'name', 'key_prefix', 'api_key'])
  expect(hook.secret).toMatch(/^whsec_/)
  expect((await stat(join(dataDir, 'master.key'))).mode & 0o777).toBe(0o600)

  // Commands work next to it, and a second server gets an error with its process id.
  const made = await keyhook(['org', 'create', '--name', 'Beside', '--json'], environment)
  expect([made.code, JSON.parse(made.stdout).name]).toEqual([0, 'Beside'])
  const refused = await keyhook(['serve'], { ...environment, PORT: '0' })
  expect(refused.code).toBe(2)
  expect(refused.stderr).toMatch(new RegExp(`^[^\\n]*${first.child.pid}[^\\n]*\\n$`))

  const stopped = await first.stop('SIGINT')
  expect(stopped.code).toBe(0)
  // Without it the command starts the database for itself.
  const alone = await keyhook(['token', 'issue', '--user', /--user (usr_\w+)/.exec(welcome)![1]!], environment)
  expect(alone.code).toBe(0)

  const second = await serve(environment)
  expect(second.ready.organization_id).toBe(orgId)
  expect((await call(`${second.url}/api/v1/organizations`, { token: key.api_key })).status).toBe(200)
  const listed = await call<{ id: string }[]>(`${second.url}/api/v1/organizations/${orgId}/webhooks`, {
    token: alone.stdout.trim(),
  })
  expect(listed.body.map((one) => one.id)).toEqual([hook.id])
  expect(url).not.toBe(second.url)
  expect((await second.stop('SIGTERM')).code).toBe(0)

  // Without its master key no webhook secret could be opened: the start fails instead of creating another key.
  await rename(join(dataDir, 'master.key'), join(dataDir, 'kept.key'))
  const lost = await keyhook(['serve', '--json'], { ...environment, PORT: '0' })
  expect(lost).toMatchObject({ code: 2, stdout: '' })
  expect(lost.stderr).toMatch(/^[^\n]+master\.key is missing, [^\n]+ Restore it from a backup; [^\n]+\n$/)
  await expect(stat(join(dataDir, 'master.key'))).rejects.toThrow('ENOENT')
})

test.each(['SIGINT', 'SIGTERM'] as const)(
  '%s: requests in flight are finished, no new one is accepted, exit code 0',
  async (signal) => {
    const { db, organization, person, environment } = await external()
    const orgId = await organization()
    const { token } = await person([{ orgId, role: 'owner' }])
    const server = await serve(environment, ['--json', '--role', 'api'])
    const keys = `/api/v1/organizations/${orgId}/api-keys`

    // The request waits for a lock that we hold, so that it stays in flight.
    const held = Promise.withResolvers<void>()
    const locked = Promise.withResolvers<void>()
    const holding = db.begin(async (tx) => {
      await tx`select 1 from keyhook.organizations where id = ${orgId} for update`
      locked.resolve()
      await held.promise
    })
    await locked.promise
    const inFlight = call(server.url + keys, { token, body: { name: 'in flight' } })
    const idle = openRaw(server.url)
    const waiting = async () => (await db`select 1 from pg_locks where not granted`).length
    await expect.poll(waiting).toBeGreaterThan(0)
    const stopping = server.stop(signal)
    const health = () =>
      call(`${server.url}/healthz`)
        .then(({ status }) => status)
        .catch(() => 'refused')
    await expect.poll(health).toBe('refused')
    expect(server.child.exitCode).toBeNull()
    await idle.ended
    held.resolve()
    await holding
    const finishedAt = performance.now()
    expect((await inFlight).status).toBe(201)
    expect((await stopping).code).toBe(0)
    // The stop does not wait for idle connections, which stay open for a minute.
    expect(performance.now() - finishedAt).toBeLessThan(30_000)
    const [row] = await db`select count(*)::int as n from keyhook.api_keys`
    expect(row!.n).toBe(1)
  },
)

test('SIGTERM: while proxies notice, /readyz is 503, and requests are served on connections that close after them', async () => {
  const { organization, person, environment } = await external()
  const { token } = await person([{ orgId: await organization(), role: 'owner' }])
  const server = await serve({ ...environment, KEYHOOK_HTTP_DRAIN_MS: '600000' }, ['--json', '--role', 'api'])
  onTestFinished(() => void server.child.kill('SIGKILL'))
  const request = (path: string) =>
    `GET ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\nAccept-Encoding: identity\r\n\r\n`
  const closes = (text: string) => [...text.matchAll(/^connection: (.*)$/gim)].map(([, value]) => value)
  const kept = openRaw(server.url)
  kept.socket.write(request('/healthz'))
  await expect.poll(() => closes(kept.received())).toEqual(['keep-alive'])

  server.child.kill('SIGTERM')
  const ready = () => call<{ code?: string }>(`${server.url}/readyz`)
  await expect.poll(async () => (await ready()).status).toBe(503)
  expect(await ready()).toMatchObject({ body: { code: 'service.unavailable' } })
  // Two in one packet: both are answered, and the connection closes after the second.
  kept.socket.write(request('/api/v1/organizations') + request('/healthz'))
  await kept.ended
  expect(kept.received().match(/HTTP\/1\.1 200 /g)).toHaveLength(3)
  expect(closes(kept.received())).toEqual(['keep-alive', 'keep-alive', 'close'])
  const another = await sendRaw(server.url, request('/api/v1/organizations'))
  expect([another.status, another.headers.connection]).toEqual([200, 'close'])
  expect(server.output().stderr).not.toContain('request.failed')

  // A person who presses Ctrl-C does not wait for proxies.
  const other = await serve({ ...environment, KEYHOOK_HTTP_DRAIN_MS: '600000' }, ['--json', '--role', 'api'])
  expect((await other.stop('SIGINT')).code).toBe(0)
})

test('without the database /healthz answers 200 and /readyz 503', async () => {
  const { environment, cut } = await external()
  const server = await serve({ ...environment, KEYHOOK_LOG_LEVEL: 'silent' }, ['--json', '--role', 'api'])
  const ask = (path: string) => call<{ status?: string; code?: string }>(server.url + path)
  expect((await ask('/readyz')).body).toEqual({ status: 'ok' })
  await cut()
  const ready = await ask('/readyz')
  expect([ready.status, ready.body.code, ready.headers.get('retry-after')]).toEqual([503, 'service.unavailable', '2'])
  expect([(await ask('/healthz')).status, (await ask('/docs/decisions')).status]).toEqual([200, 200])
  const refused = await call<{ code: string }>(`${server.url}/api/v1/organizations`, {
    token: `kh_${'0'.repeat(8)}_${'0'.repeat(32)}`,
  })
  expect(refused.status).toBe(401)
  expect(server.child.exitCode).toBeNull()
})

test('a server whose database connections are silent is soon not ready', async () => {
  const { environment, silence } = await external()
  const server = await serve({ ...environment, KEYHOOK_LOG_LEVEL: 'silent' }, ['--json', '--role', 'api'])
  expect((await call(`${server.url}/readyz`)).status).toBe(200)
  // As when a firewall forgets them: new ones would be good.
  silence()
  expect((await call(`${server.url}/readyz`)).status).toBe(503)
  expect((await call(`${server.url}/healthz`)).status).toBe(200)
  server.child.kill('SIGKILL')
})

test('a server whose database is read-only is not ready', async () => {
  const { environment, db, reset } = await external()
  const server = await serve({ ...environment, KEYHOOK_LOG_LEVEL: 'silent' }, ['--json', '--role', 'api'])
  const ready = async () => (await call(`${server.url}/readyz`)).status
  const become = async (readOnly: 'on' | 'off') => {
    await db.unsafe(`alter database ${db.target.database} set default_transaction_read_only = ${readOnly}`)
    reset()
  }
  await become('on')
  const token = mintApiKey('kh').apiKey
  // It is there, and stays not ready.
  for (let n = 0; n < 10; n++) {
    expect(await ready()).toBe(503)
    await setTimeout(100)
  }
  expect((await call(`${server.url}/api/v1/organizations`, { token })).status).toBe(401)
  await become('off')
  await expect.poll(ready).toBe(200)
})

test('a port in use and an address of another machine are one line each', async () => {
  const { environment } = await external()
  const server = await serve(environment, ['--json', '--role', 'api'])
  const { port } = new URL(server.url)
  const taken = await keyhook(['serve', '--role', 'api'], { ...environment, PORT: port })
  expect([taken.code, taken.stderr]).toEqual([
    2,
    expect.stringMatching(/^PORT: another program uses port \d+ on 127\.0\.0\.1\. [^\n]+\n$/),
  ])
  const probes = await keyhook(['serve', '--role', 'dispatcher'], { ...environment, KEYHOOK_METRICS_PORT: port })
  expect([probes.code, probes.stderr]).toEqual([
    2,
    expect.stringMatching(/^KEYHOOK_METRICS_PORT: another program uses port \d+ on [^\n]+\n$/),
  ])
  const elsewhere = await keyhook(['serve', '--role', 'api'], { ...environment, PORT: '0', HOST: '192.0.2.1' })
  expect([elsewhere.code, elsewhere.stderr]).toEqual([2, expect.stringMatching(/^HOST: [^\n]+\n$/)])
})

test('an unusable directory for archives is one line, before the server is ready', async () => {
  const { environment } = await external()
  const folder = await scratchDirectory()
  const file = join(folder, 'file')
  await writeFile(file, '')
  for (const [path, why] of [
    [file, `${file} is no directory`],
    [join(file, 'below'), `${file} is no directory`],
    // Node's own way of making it would try for ever.
    ['/proc/keyhook/archives', '/proc/keyhook cannot be made'],
  ] as const) {
    const settings = { ...environment, KEYHOOK_DATA_DIR: join(folder, 'data'), KEYHOOK_LOG_LEVEL: 'fatal', PORT: '0' }
    const refused = await keyhook(['serve', '--json'], { ...settings, KEYHOOK_ARCHIVES_DIR: path })
    expect(refused).toMatchObject({ code: 2, stdout: '' })
    expect(refused.stderr).toMatch(/^KEYHOOK_ARCHIVES_DIR: [^\n]+\n$/)
    expect(refused.stderr).toContain(`"${path}" cannot be used: ${why}`)
  }
})

test('a process without the API prints the free port that it chose for metrics', async () => {
  const { environment } = await external()
  const settings = { ...environment, KEYHOOK_METRICS_PORT: '0' }
  const dispatcher = ['--role', 'dispatcher']
  const said = (await serve(settings, dispatcher)).output().stdout
  const [, shown] = /^Keyhook is running \(dispatcher\)\. Metrics: (\S+) Ctrl-C stops it\.\n$/.exec(said)!
  const { ready } = await serve(settings, [...dispatcher, '--json'])
  expect(ready).toMatchObject({ url: null, metrics_url: expect.stringMatching(/^http:/) })
  for (const url of [shown!, ready.metrics_url!]) expect((await call(url)).status).toBe(200)
  const api = await serve(environment, ['--role', 'api', '--json'])
  expect(api.ready.metrics_url).toBe(`${api.url}/metrics`)
  const silent = await serve(environment, [...dispatcher, '--json'])
  expect(silent.ready.metrics_url).toBeNull()
})

test('serve --json prints exactly one line, and logs go to standard error', async () => {
  const { environment } = await external()
  const server = await serve(environment, ['--json', '--role', 'api'])
  await call(`${server.url}/api/v1/organizations`, { token: 'garbage' })
  const { stdout, stderr, code } = await server.stop()
  expect(code).toBe(0)
  expect(stdout.split('\n')).toEqual([expect.stringMatching(/^\{"url":"http:\/\/localhost:\d+"/), ''])
  const lines = stderr.split('\n').filter((line) => line !== '')
  for (const line of lines) expect(JSON.parse(line)).toMatchObject({ time: expect.any(String) })
  expect(stderr).toContain('request.answered')
})
