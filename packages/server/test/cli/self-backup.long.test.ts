import { randomBytes } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { copyFile, mkdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { zstdDecompressSync } from 'node:zlib'
import { expect, onTestFinished, test } from 'vitest'
import { createEncryption } from '../../src/archives/encryption.ts'
import { createMasterKeys } from '../../src/lib/master-keys.ts'
import { createLocalIssuer } from '../../src/login/login-tokens.ts'
import { isPostgresOn, readLockFile } from '../../src/postgres/lock-file.ts'
import { deliveryEnvironment } from '../delivery/support/delivery-test.ts'
import { eventIdOf, receiverFor } from '../delivery/support/receiver.ts'
import { call } from '../kit/client.ts'
import { keyhook, type Running, scratchDirectory, serve } from '../kit/processes.ts'
import { until } from '../kit/until.ts'
import { dataDirectory } from '../postgres/support/scratch.ts'

const masterKey = randomBytes(32)
const issuer = createLocalIssuer({ masterKeys: createMasterKeys([masterKey]), now: () => new Date() })
const common = {
  ...deliveryEnvironment,
  KEYHOOK_MASTER_KEY: masterKey.toString('base64'),
  KEYHOOK_LOG_LEVEL: 'silent',
  // Deliveries that fail before the backup are still due after the restore.
  KEYHOOK_DELIVERY_RETRY_SCHEDULE: `0s${',2s'.repeat(99)}`,
}

/** Keyhook and its PostgreSQL, as a machine does that loses its power. */
async function killAll(server: Running, dataDir: string): Promise<void> {
  const cluster = join(dataDir, 'postgres')
  const lock = (await readLockFile(cluster))!
  await server.stop('SIGKILL')
  process.kill(lock.pid, 'SIGKILL')
  await until(async () => !(await isPostgresOn(cluster, lock.pid)))
}

/** Every key and event of the load is checked later. */
const pauseMs = 20

/** Keys and events, one after the other, until `stop`. What was acknowledged is in the lists. */
function startLoad(url: string, orgId: string, tokens: { owner: string; operator: string }) {
  const keys: { id: string; api_key: string }[] = []
  const events: string[] = []
  let running = true
  const createKeys = async () => {
    while (running) {
      const path = `${url}/api/v1/organizations/${orgId}/api-keys`
      const made = await call<{ id: string; api_key: string }>(path, { token: tokens.owner, body: { name: 'ci' } })
      if (made.status === 201) keys.push(made.body)
      await sleep(pauseMs)
    }
  }
  const publish = async () => {
    for (let n = 0; running; n++) {
      const body = { organization_id: orgId, type: 'database.created', data: { n }, id: `event-${n}` }
      const taken = await call(`${url}/operator/v1/events`, { token: tokens.operator, body })
      if (taken.status === 202) events.push(`event-${n}`)
      await sleep(pauseMs)
    }
  }
  const working = Promise.all([createKeys(), publish()])
  return {
    keys,
    events,
    async stop() {
      running = false
      await working
    },
  }
}

test('a backup that is taken under load restores everything that was acknowledged before, into an empty data directory', {
  timeout: 300_000,
}, async () => {
  const [lost, fresh, folder] = [await dataDirectory(), await dataDirectory(), await scratchDirectory()]
  let isAccepting = false
  const receiver = await receiverFor(() => ({ status: isAccepting ? 204 : 503 }))
  const server = await serve({ ...common, KEYHOOK_DATA_DIR: lost })
  const { organization_id: orgId, owner_id: ownerId } = server.ready
  const owner = await issuer.issue({ subject: ownerId as never, ttlSeconds: 600 })
  const issued = await keyhook(['token', 'issue', '--operator', '--json'], { ...common, KEYHOOK_DATA_DIR: lost })
  const { token: operator } = JSON.parse(issued.stdout) as { token: string }
  const organization = (url: string) => `${url}/api/v1/organizations/${orgId}`
  const webhook = { url: receiver.url, event_types: ['database.created'] }
  expect((await call(`${organization(server.url)}/webhooks`, { token: owner, body: webhook })).status).toBe(201)

  const load = startLoad(server.url, orgId, { owner, operator })
  onTestFinished(() => load.stop())
  await until(() => load.keys.length > 20 && load.events.length > 20)
  const revoked = load.keys[3]!
  const revoke = { token: owner, method: 'DELETE' }
  expect((await call(`${organization(server.url)}/api-keys/${revoked.id}`, revoke)).status).toBe(204)
  const [keys, events] = [[...load.keys], [...load.events]]
  const file = join(folder, 'self.tar.zst.age')
  const made = await keyhook(['backup', 'self', '--to', file, '--json'], { ...common, KEYHOOK_DATA_DIR: lost })
  expect([made.code, made.stderr]).toEqual([0, ''])
  expect(JSON.parse(made.stdout)).toEqual({
    file,
    size_bytes: (await stat(file)).size,
    files: expect.any(Number),
    master_key_id: createMasterKeys([masterKey]).currentKeyId,
  })
  // The load went on meanwhile.
  const count = load.keys.length
  await until(() => load.keys.length > count)
  await load.stop()
  await killAll(server, lost)

  const restored = await keyhook(['backup', 'restore-self', '--from', file, '--json'], {
    ...common,
    KEYHOOK_DATA_DIR: fresh,
  })
  expect([restored.code, restored.stderr]).toEqual([0, ''])
  expect(JSON.parse(restored.stdout)).toEqual({ data_dir: fresh })
  isAccepting = true
  const refused = receiver.received.length
  const again = await serve({ ...common, KEYHOOK_DATA_DIR: fresh })
  expect(again.ready.organization_id).toBe(orgId)
  const statusOf = async (key: { api_key: string }) =>
    (await call(`${organization(again.url)}/api-keys?limit=1`, { token: key.api_key })).status
  for (const key of keys) expect([key.id, await statusOf(key)]).toEqual([key.id, key.id === revoked.id ? 401 : 200])

  // Those before were answered with 503.
  const arrived = () => new Set(receiver.received.slice(refused).map(eventIdOf))
  await until(() => events.every((id) => arrived().has(id)))
  const body = { organization_id: orgId, type: 'database.created', data: {}, id: 'afterwards' }
  expect((await call(`${again.url}/operator/v1/events`, { token: operator, body })).status).toBe(202)
  await until(() => arrived().has('afterwards'))
})

test('the file is encrypted, has no master key, is for its owner only, and replaces nothing', {
  timeout: 180_000,
}, async () => {
  const [dataDir, folder] = [await dataDirectory(), await scratchDirectory()]
  const environment = { KEYHOOK_DATA_DIR: dataDir, KEYHOOK_LOG_LEVEL: 'silent' }
  const file = join(folder, 'self.tar.zst.age')
  expect(await keyhook(['backup', 'self', '--to', file], environment)).toMatchObject({ code: 0 })
  expect((await stat(file)).mode & 0o777).toBe(0o600)
  expect((await readFile(file)).subarray(0, 21).toString()).toBe('age-encryption.org/v1')
  const plain = join(folder, 'self.tar.zst')
  expect(await keyhook(['backup', 'decrypt', file, '--to', plain], environment)).toMatchObject({ code: 0 })
  const content = zstdDecompressSync(await readFile(plain))
  const key = (await readFile(join(dataDir, 'master.key'), 'utf8')).trim()
  expect([content.includes(key), content.includes(Buffer.from(key, 'base64'))]).toEqual([false, false])
  const password = (await readFile(join(dataDir, 'postgres.password'), 'utf8')).trim()
  expect(content.includes(password)).toBe(false)

  const second = await keyhook(['backup', 'self', '--to', file], environment)
  expect([second.code, second.stderr]).toEqual([2, expect.stringMatching(/exists already: choose another name/)])
  const where = await keyhook(['backup', 'self', '--to', join(folder, 'missing/self')], environment)
  expect([where.code, where.stderr]).toEqual([2, expect.stringMatching(/cannot be written \(ENOENT\)/)])

  // Into the directory that has a database: refused, and the database is what it was.
  const over = await keyhook(['backup', 'restore-self', '--from', file], environment)
  expect([over.code, over.stderr]).toEqual([2, expect.stringMatching(/has a database already/)])
  // The cluster alone is lost: the directory keeps its identity and its key.
  await rename(join(dataDir, 'postgres'), join(folder, 'lost'))
  const kept = await keyhook(['backup', 'restore-self', '--from', file], environment)
  expect([kept.code, kept.stdout]).toEqual([
    0,
    expect.stringMatching(/^The backup was restored into .* Start the server with: npx keyhook serve\n$/),
  ])
  expect(await keyhook(['migrate'], environment)).toMatchObject({ code: 0, stdout: 'The schema is up to date.\n' })
})

test('a damaged file, a customer’s backup and a missing key are named, and leave no database behind', {
  timeout: 180_000,
}, async () => {
  const [source, dataDir, folder] = [await dataDirectory(), await dataDirectory(), await scratchDirectory()]
  const file = join(folder, 'self.tar.zst.age')
  const quiet = { KEYHOOK_LOG_LEVEL: 'silent' }
  expect(await keyhook(['backup', 'self', '--to', file], { ...quiet, KEYHOOK_DATA_DIR: source })).toMatchObject({
    code: 0,
  })
  const restore = (from: string) =>
    keyhook(['backup', 'restore-self', '--from', from], { ...quiet, KEYHOOK_DATA_DIR: dataDir })

  const bytes = await readFile(file)
  bytes[Math.floor(bytes.length / 2)]! ^= 1
  const damaged = join(folder, 'damaged')
  await writeFile(damaged, bytes)
  await mkdir(dataDir, { recursive: true })
  await copyFile(join(source, 'master.key'), join(dataDir, 'master.key'))
  const key = Buffer.from(await readFile(join(source, 'master.key'), 'utf8'), 'base64')
  const encryption = createEncryption(createMasterKeys([key]))
  const [other, stranger, plain] = [join(folder, 'other'), join(folder, 'stranger'), join(folder, 'plain')]
  async function* content() {
    yield* createReadStream(file)
  }
  await writeFile(other, encryption.encrypt('backups/db_1/bak_1.tar.zst.age', content()))
  await writeFile(stranger, createEncryption(createMasterKeys([randomBytes(32)])).encrypt('self/keyhook', content()))
  await writeFile(plain, encryption.decrypt('self/keyhook', content()))
  const missing = join(folder, 'missing')
  for (const [from, message] of [
    [damaged, /The archive is damaged/],
    [other, /is backups\/db_1\/bak_1.tar.zst.age, and not a backup of Keyhook itself/],
    [stranger, /encrypted under master key .*, which KEYHOOK_MASTER_KEY does not list/],
    [plain, /is not an archive that Keyhook has encrypted/],
    [missing, /cannot be read \(ENOENT\)/],
  ] as const) {
    const { code, stderr } = await restore(from)
    expect([code, stderr]).toEqual([2, expect.stringMatching(message)])
    expect(stderr.trim().split('\n')).toHaveLength(1)
  }
  await rm(join(dataDir, 'master.key'))
  const keyless = await restore(file)
  expect([keyless.code, keyless.stderr]).toEqual([2, expect.stringMatching(/put .*master\.key back/)])
  await writeFile(join(dataDir, 'master.key'), key.toString('base64'))
  expect(await restore(file)).toMatchObject({ code: 0 })
})

test('with DATABASE_URL the tools of that server are named', async () => {
  const environment = { DATABASE_URL: 'postgres://a:b@127.0.0.1:1/c', KEYHOOK_MASTER_KEY: masterKey.toString('base64') }
  for (const args of [
    ['self', '--to', 'x'],
    ['restore-self', '--from', 'x'],
  ]) {
    const { code, stderr } = await keyhook(['backup', ...args], environment)
    expect([code, stderr]).toEqual([2, expect.stringMatching(/pg_dump or pg_basebackup/)])
  }
})
