import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { access, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { connect } from '../../src/db/database.ts'
import { isPostgresOn, readLockFile } from '../../src/postgres/lock-file.ts'
import { call } from '../kit/client.ts'
import { cleanEnvironment, keyhook, program, serve } from '../kit/processes.ts'
import { dataDirectory, open } from '../postgres/support/scratch.ts'

const timeout = 90_000

/** A command of the real program that can be stopped. */
function start(args: string[], KEYHOOK_DATA_DIR: string, { detached = false } = {}) {
  const env = cleanEnvironment({ PORT: '0', KEYHOOK_DATA_DIR })
  const child = spawn(process.execPath, [program, ...args], { env, detached })
  const ended = once(child, 'close')
  onTestFinished(async () => {
    child.kill('SIGKILL')
    await ended
  })
  let stderr = ''
  child.stderr.setEncoding('utf8').on('data', (chunk) => {
    stderr += chunk
  })
  return { child, ended, stderr: () => stderr }
}

/** The PostgreSQL of a data directory, once it accepts connections. */
async function postmasterOf(dataDir: string) {
  const cluster = join(dataDir, 'postgres')
  const lock = async () => await readLockFile(cluster).catch(() => undefined)
  await expect.poll(async () => (await lock())?.ready, { interval: 5 }).toBe(true)
  const { pid } = (await lock())!
  return { isRunning: () => isPostgresOn(cluster, pid) }
}

/** Locks the table, so that creating an organization or a key waits until the test ends. */
async function holdOrganizations(dataDir: string) {
  const { connection } = await open(dataDir, 'command')
  const sql = connect(connection, { name: 'test', connectionsMax: 2 })
  // Its server may have gone before it.
  onTestFinished(() => sql.end({ timeout: 0 }).catch(() => {}))
  const held = await sql.reserve()
  await held`begin`
  await held`lock table keyhook.organizations in access exclusive mode`
  const waiting = async () => (await sql`select 1 from pg_locks where not granted`).length
  return { untilWaiting: () => expect.poll(waiting).toBeGreaterThan(0) }
}

test.each(['SIGINT', 'SIGTERM'] as const)(
  '%s ends a command and the PostgreSQL that it started',
  { timeout },
  async (signal) => {
    const dataDir = await dataDirectory()
    const { child, ended } = start(['org', 'create', '--name', 'x'], dataDir)
    const postmaster = await postmasterOf(dataDir)
    child.kill(signal)
    expect(await ended).toEqual([null, signal])
    await expect.poll(postmaster.isRunning).toBe(false)
    expect((await keyhook(['org', 'create', '--name', 'x'], { KEYHOOK_DATA_DIR: dataDir })).code).toBe(0)
  },
)

test('Ctrl-C ends a command, but not the PostgreSQL of the server that it uses', { timeout }, async () => {
  const dataDir = await dataDirectory()
  const server = await serve({ KEYHOOK_DATA_DIR: dataDir, KEYHOOK_LOG_LEVEL: 'silent' })
  const { untilWaiting } = await holdOrganizations(dataDir)
  const { child, ended } = start(['org', 'create', '--name', 'x'], dataDir)
  await untilWaiting()
  child.kill('SIGINT')
  expect(await ended).toEqual([null, 'SIGINT'])
  expect((await call(`${server.url}/readyz`)).status).toBe(200)
})

test('Ctrl-C during the first start ends all its processes without an error, and the next start works', {
  timeout,
}, async () => {
  const dataDir = await dataDirectory()
  // A process group of its own, as in a terminal.
  const { child, ended, stderr } = start(['serve'], dataDir, { detached: true })
  const preparations = async () => (await readdir(dataDir)).filter((name) => name.includes('.preparing-'))
  const version = async () => access(join(dataDir, (await preparations())[0]!, 'cluster/PG_VERSION')).then(() => true)
  await expect.poll(() => version().catch(() => false), { interval: 2 }).toBe(true)
  process.kill(-child.pid!, 'SIGINT')
  expect(await ended).toEqual([null, 'SIGINT'])
  expect(stderr()).toMatch(/^Preparing PostgreSQL in [^\n]+\n$/)
  const programs = async () => (await promisify(execFile)('ps', ['-eo', 'args'])).stdout
  await expect.poll(programs).not.toContain(dataDir)

  const next = await serve({ KEYHOOK_DATA_DIR: dataDir, KEYHOOK_LOG_LEVEL: 'silent' })
  expect((await call(`${next.url}/readyz`)).status).toBe(200)
  expect(await preparations()).toEqual([])
})

test('the same Ctrl-C forwarded by npm counts once, a later one ends the server at once, and PostgreSQL ends with it', {
  timeout,
}, async () => {
  const dataDir = await dataDirectory()
  const environment = { KEYHOOK_DATA_DIR: dataDir, KEYHOOK_LOG_LEVEL: 'silent' }
  const forwarded = await serve(environment)
  const first = await postmasterOf(dataDir)
  forwarded.child.kill('SIGINT')
  await sleep(80)
  expect((await forwarded.stop('SIGINT')).code).toBe(0)
  expect(await first.isRunning()).toBe(false)

  const impatient = await serve(environment)
  const second = await postmasterOf(dataDir)
  const { organization_id: org, owner_id: owner } = impatient.ready
  const { stdout } = await keyhook(['token', 'issue', '--user', owner], environment)
  const { untilWaiting } = await holdOrganizations(dataDir)
  const path = `/api/v1/organizations/${org}/api-keys`
  const inFlight = call(impatient.url + path, { token: stdout.trim(), body: { name: 'ci' } }).catch(() => 'cut off')
  await untilWaiting()
  impatient.child.kill('SIGINT')
  await sleep(1_500)
  expect(impatient.child.exitCode).toBeNull()
  impatient.child.kill('SIGINT')
  const [code, signal] = await once(impatient.child, 'close')
  expect([code, signal]).toEqual([null, 'SIGINT'])
  expect(await inFlight).toBe('cut off')
  await expect.poll(second.isRunning).toBe(false)
})
