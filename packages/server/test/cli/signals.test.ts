import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { access, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { connect } from '../../src/db/database.ts'
import { isPostgresOn, readLockFile } from '../../src/embedded/lock-file.ts'
import { dataDirectory, open } from '../embedded/support/scratch.ts'
import { call } from '../support/client.ts'
import { keyhook, program, serve } from '../support/processes.ts'

const timeout = 90_000
const patient = { timeout: 20_000 }

/** A command of the real program that can be told to end. */
function begin(words: string[], KEYHOOK_DATA_DIR: string, { detached = false } = {}) {
  const env = { PATH: process.env.PATH, HOME: process.env.HOME, PORT: '0', KEYHOOK_DATA_DIR } as NodeJS.ProcessEnv
  const child = spawn(process.execPath, [program, ...words], { env, detached })
  const ended = once(child, 'close')
  onTestFinished(async () => {
    child.kill('SIGKILL')
    await ended
  })
  let said = ''
  child.stderr.setEncoding('utf8').on('data', (chunk) => {
    said += chunk
  })
  return { child, ended, said: () => said }
}

/** The PostgreSQL of a data directory, once it takes connections. */
async function postmasterOf(dataDir: string) {
  const cluster = join(dataDir, 'postgres')
  const lock = async () => await readLockFile(cluster).catch(() => undefined)
  await expect.poll(async () => (await lock())?.ready, { interval: 5, ...patient }).toBe(true)
  const { pid } = (await lock())!
  return { isRunning: () => isPostgresOn(cluster, pid) }
}

/** Whoever wants to make an organization or a key waits for as long as the test likes. */
async function holdOrganizations(dataDir: string) {
  const { connection } = await open(dataDir, 'command')
  const sql = connect(connection, { name: 'test', connectionsMax: 2 })
  // Its server may have gone before it.
  onTestFinished(() => sql.end({ timeout: 0 }).catch(() => {}))
  const held = await sql.reserve()
  await held`begin`
  await held`lock table keyhook.organizations in access exclusive mode`
  const waiting = async () => (await sql`select 1 from pg_locks where not granted`).length
  return { someoneWaits: () => expect.poll(waiting, patient).toBeGreaterThan(0) }
}

test.each(['SIGINT', 'SIGTERM'] as const)(
  '%s ends a command, and the PostgreSQL that it has started for itself goes with it',
  { timeout },
  async (signal) => {
    const dataDir = await dataDirectory()
    const { child, ended } = begin(['org', 'create', '--name', 'x'], dataDir)
    const postmaster = await postmasterOf(dataDir)
    child.kill(signal)
    expect(await ended).toEqual([null, signal])
    await expect.poll(postmaster.isRunning, patient).toBe(false)
    expect((await keyhook(['org', 'create', '--name', 'x'], { KEYHOOK_DATA_DIR: dataDir })).code).toBe(0)
  },
)

test('Ctrl-C ends a command, and leaves the PostgreSQL alone that a server has lent to it', { timeout }, async () => {
  const dataDir = await dataDirectory()
  const server = await serve({ KEYHOOK_DATA_DIR: dataDir, KEYHOOK_LOG_LEVEL: 'silent' })
  const { someoneWaits } = await holdOrganizations(dataDir)
  const { child, ended } = begin(['org', 'create', '--name', 'x'], dataDir)
  await someoneWaits()
  child.kill('SIGINT')
  expect(await ended).toEqual([null, 'SIGINT'])
  await sleep(500)
  expect((await call(`${server.url}/readyz`)).status).toBe(200)
})

test('Ctrl-C during the very first start ends it quietly, with all that it runs, and the next one begins anew', {
  timeout,
}, async () => {
  const dataDir = await dataDirectory()
  // A group of its own, as the terminal gives to what is started in it.
  const { child, ended, said } = begin(['serve'], dataDir, { detached: true })
  const workshops = async () => (await readdir(dataDir)).filter((name) => name.includes('.preparing-'))
  const version = async () => access(join(dataDir, (await workshops())[0]!, 'cluster/PG_VERSION')).then(() => true)
  await expect.poll(() => version().catch(() => false), { interval: 2, ...patient }).toBe(true)
  process.kill(-child.pid!, 'SIGINT')
  expect(await ended).toEqual([null, 'SIGINT'])
  expect(said()).toMatch(/^Preparing PostgreSQL in [^\n]+\n$/)
  const programs = async () => (await promisify(execFile)('ps', ['-eo', 'args'])).stdout
  await expect.poll(programs, patient).not.toContain(dataDir)

  const next = await serve({ KEYHOOK_DATA_DIR: dataDir, KEYHOOK_LOG_LEVEL: 'silent' })
  expect((await call(`${next.url}/readyz`)).status).toBe(200)
  expect(await workshops()).toEqual([])
})

test('a Ctrl-C that comes twice is one; a second one hurries, and PostgreSQL goes with the server in any case', {
  timeout,
}, async () => {
  const dataDir = await dataDirectory()
  const environment = { KEYHOOK_DATA_DIR: dataDir, KEYHOOK_LOG_LEVEL: 'silent' }
  const twice = await serve(environment)
  const first = await postmasterOf(dataDir)
  twice.child.kill('SIGINT')
  await sleep(80)
  expect((await twice.stop('SIGINT')).code).toBe(0)
  expect(await first.isRunning()).toBe(false)

  const hurried = await serve(environment)
  const second = await postmasterOf(dataDir)
  const { organization_id: org, owner_id: owner } = hurried.ready
  const { stdout } = await keyhook(['token', 'issue', '--user', owner], environment)
  const { someoneWaits } = await holdOrganizations(dataDir)
  const path = `/api/v1/organizations/${org}/api-keys`
  const inFlight = call(hurried.url + path, { token: stdout.trim(), body: { name: 'ci' } }).catch(() => 'cut off')
  await someoneWaits()
  hurried.child.kill('SIGINT')
  await sleep(1_500)
  expect(hurried.child.exitCode).toBeNull()
  hurried.child.kill('SIGINT')
  const [code, signal] = await once(hurried.child, 'close')
  expect([code, signal]).toEqual([null, 'SIGINT'])
  expect(await inFlight).toBe('cut off')
  await expect.poll(second.isRunning, patient).toBe(false)
})
