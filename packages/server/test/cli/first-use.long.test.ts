import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { appendFile, readdir, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { insertAuthority, sealContext } from '../../src/databases/certificates.ts'
import { nodeOf } from '../../src/databases/drivers/local/home.ts'
import { createMasterKeys } from '../../src/lib/master-keys.ts'
import { countOrganizations } from '../../src/organizations/sql.ts'
import { MachineUnfit } from '../../src/postgres/account.ts'
import { runInitdb } from '../../src/postgres/cluster.ts'
import { removeDataDirectory } from '../kit/data-directory.ts'
import { createInstallation } from '../kit/installation.ts'
import { bridgeTo, cleanEnvironment, keyhook, program, scratchDirectory, serve } from '../kit/processes.ts'
import { smallDisk } from '../kit/small-disk.ts'
import { asRoot } from '../postgres/support/scratch.ts'

/*
 * What goes wrong at a first start is one sentence, before anything runs.
 */

const newKey = () => randomBytes(32).toString('base64')

/** An empty database on a PostgreSQL of the user, and the settings of a server that uses it. */
async function ownPostgres() {
  const installation = await createInstallation()
  onTestFinished(() => installation.close())
  const { url } = await bridgeTo(installation.target)
  const dataDir = await scratchDirectory()
  onTestFinished(() => removeDataDirectory(dataDir))
  const environment = { DATABASE_URL: url, KEYHOOK_MASTER_KEY: newKey(), KEYHOOK_DATA_DIR: dataDir, PORT: '0' }
  return { db: installation.db, dataDir, environment: { ...environment, KEYHOOK_LOG_LEVEL: 'silent' } }
}

test('with DATABASE_URL a server creates no organization and no user, unless it is asked to', async () => {
  const { db, environment } = await ownPostgres()
  const silent = await serve(environment, ['--json', '--role', 'api'], { needsOrganization: false })
  expect(silent.ready).toMatchObject({ organization_id: null, owner_id: null })
  await silent.stop()
  expect(await countOrganizations(db)).toBe(0)
  const asked = await serve(environment, ['--json', '--role', 'api'])
  expect(asked.ready).toMatchObject({ organization_id: expect.stringMatching(/^org_/) })
})

test('a changed master key, with which the databases could not start, is refused', async () => {
  const { db, environment } = await ownPostgres()
  const key = createMasterKeys([Buffer.from(newKey(), 'base64')]).seal('key', sealContext)
  await insertAuthority(db, { certificate: 'certificate', key })
  const ended = await keyhook(['serve', '--json'], environment)
  const line = new RegExp(
    `^The certificate authority of the databases is sealed under master key ${key.keyId}, [^\\n]+\\n$`,
  )
  expect(ended).toMatchObject({ code: 2, stdout: '', stderr: expect.stringMatching(line) })
})

test.each(['all', 'jobs'])('a forgotten node with the role %s is refused in one sentence', async (role) => {
  const { db, dataDir, environment } = await ownPostgres()
  const { node } = await nodeOf(dataDir)
  await db`
    insert into keyhook.nodes (id, databases_max, currency, hour_price_minor, state) values (${node}, 1, 'EUR', 0, 'forgotten')`
  const ended = await keyhook(['serve', '--json', '--role', role], environment)
  const line = /^This node was given up with `keyhook node forget`: [^\n]+\n$/
  expect(ended).toMatchObject({ code: 2, stdout: '', stderr: expect.stringMatching(line) })
})

test('PGOPTIONS does not reach the embedded PostgreSQL', async () => {
  const dataDir = await scratchDirectory()
  onTestFinished(() => removeDataDirectory(dataDir))
  const ended = await keyhook(['migrate', '--json'], { KEYHOOK_DATA_DIR: dataDir, PGOPTIONS: '-c nonsense=1' })
  expect(ended).toMatchObject({ code: 0, stdout: expect.stringMatching(/^{"applied":\["0001_schema",/) })
})

test.each(['$', '"', '`', '\\'])(
  'a path with %s, which initdb would give to a shell, is refused by name',
  async (odd) => {
    const binaries = { initdb: `/a${odd}b/bin/initdb`, postgres: '', major: 18, extensions: '' }
    const refused = runInitdb('/nowhere', [], { binaries, account: undefined })
    await expect(refused).rejects.toThrow(MachineUnfit)
    await expect(refused).rejects.toThrow(`the character ${odd} in it`)
  },
)

test('a demo whose server does not start says why', async (context) => {
  const disk = await smallDisk('size=20m,mode=1777')
  if (disk === null) return context.skip('no small file system can be mounted here')
  const ended = await keyhook(['demo'], { TMPDIR: disk, STATE_DIRECTORY: join(disk, 'state') })
  expect(ended).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/did not start:\n.*there is no room left on the disk/s),
  })
  expect(await readdir(disk)).toEqual(['state'])
})

test.skipIf(!asRoot)(
  'a demo that is interrupted in its first seconds says so at once, and leaves nothing behind',
  async () => {
    const state = join(await scratchDirectory(), 'state')
    const env = cleanEnvironment({ STATE_DIRECTORY: state })
    const child = spawn(process.execPath, [program, 'demo'], { env, detached: true })
    let stdout = ''
    child.stdout.setEncoding('utf8').on('data', (chunk) => {
      stdout += chunk
    })
    const ended = once(child, 'close')
    const clusters = () => readdir(join(state, 'clusters')).catch((): string[] => [])
    await expect
      .poll(async () => (await clusters()).some((name) => name.includes('.preparing-')), { interval: 5 })
      .toBe(true)
    process.kill(-child.pid!, 'SIGINT')
    await ended
    expect(stdout).toMatch(/\nStopping\.\n$/)
    expect(await clusters()).toEqual([])
  },
)

test('a disk without room for a database is mentioned at the start, and no line of the log has two levels', async (context) => {
  const disk = await smallDisk('size=170m')
  if (disk === null) return context.skip('no small file system can be mounted here')
  const { output } = await serve({ KEYHOOK_DATA_DIR: join(disk, 'data'), KEYHOOK_LOG_LEVEL: 'info' })
  await expect.poll(() => output().stderr).toContain('disk.no_room_for_a_database')
  const { bavail, bsize } = await statfs(disk)
  await appendFile(join(disk, 'filler'), Buffer.alloc(bavail * bsize - 6 * 1024 ** 2))
  await expect.poll(() => output().stderr).toContain('"disk.critical"')
  for (const line of output().stderr.split('\n')) expect(line.match(/"level":/g) ?? []).not.toHaveLength(2)
})
