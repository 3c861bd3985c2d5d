import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { writeArchive } from '../../src/archives/archive.ts'
import { createEncryption } from '../../src/archives/encryption.ts'
import { newId } from '../../src/lib/ids.ts'
import { createMasterKeys } from '../../src/lib/master-keys.ts'
import { collect, stream } from '../archives/store-conformance.ts'
import { blocksOf } from '../docs/blocks.ts'
import { keyhookHere, scratchDirectory } from '../kit/processes.ts'

const run = promisify(execFile)
const root = fileURLToPath(new URL('../../../../', import.meta.url))
const hasProgram = async (name: string, ...args: string[]) =>
  run(name, args).then(
    () => true,
    () => false,
  )

/** An archive of a database with one file, as it is in the store. */
async function storedArchive() {
  const folder = await scratchDirectory()
  const masterKey = randomBytes(32)
  const [databaseId, backupId] = [newId('db'), newId('bak')]
  const encryption = createEncryption(createMasterKeys([masterKey]))
  const plain = await collect(
    writeArchive(async (archive) => {
      await archive.file('PG_VERSION', 3, stream(Buffer.from('18\n')))
      return { database_id: databaseId, postgres_version: '18', start_lsn: '0/1', stop_lsn: '0/2' }
    }),
  )
  const object = `backups/${databaseId}/${backupId}.tar.zst.age`
  const file = join(folder, `${backupId}.tar.zst.age`)
  await writeFile(file, await collect(encryption.encrypt(object, stream(plain))))
  const environment = { KEYHOOK_DATA_DIR: join(folder, 'data'), KEYHOOK_MASTER_KEY: masterKey.toString('base64') }
  return { folder, file, object, plain, databaseId, backupId, environment, keyId: encryption.currentKeyId }
}

test('backup decrypt writes what was backed up, into a new file only', async () => {
  const { folder, file, object, plain, environment, keyId } = await storedArchive()
  const to = join(folder, 'plain.tar.zst')
  const decrypt = () => keyhookHere(['backup', 'decrypt', file, '--to', to, '--json'], environment)
  const answer = await decrypt()
  expect(JSON.parse(answer.stdout)).toEqual({ file: to, size_bytes: plain.length, object, key_id: keyId })
  expect((await readFile(to)).equals(plain)).toBe(true)
  await writeFile(to, 'mine')
  expect(await decrypt()).toMatchObject({ code: 2, stderr: expect.stringContaining('exists already') })
  expect(await readFile(to, 'utf8')).toBe('mine')
})

test('backup decrypt of a changed archive, or without its key, says why and leaves nothing', async () => {
  const { folder, file, environment, keyId } = await storedArchive()
  const before = await readdir(folder)
  const archive = await readFile(file)
  const decrypt = (more = {}) =>
    keyhookHere(['backup', 'decrypt', file, '--to', join(folder, 'plain')], { ...environment, ...more })
  const cases: [Buffer, Record<string, string>, string][] = [
    [archive.subarray(0, -1), {}, 'The archive is damaged: it cannot be decrypted.'],
    [
      Buffer.from(archive.map((byte, i) => (i === archive.length - 20 ? byte ^ 1 : byte))),
      {},
      'it cannot be decrypted',
    ],
    [randomBytes(1_000), {}, 'is not an archive that Keyhook has encrypted'],
    [archive, { KEYHOOK_MASTER_KEY: randomBytes(32).toString('base64') }, `encrypted under master key ${keyId}`],
    [archive, { KEYHOOK_MASTER_KEY: '' }, 'There is no master key: set KEYHOOK_MASTER_KEY'],
  ]
  for (const [content, more, text] of cases) {
    await writeFile(file, content)
    expect(await decrypt(more)).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining(text) })
    expect(await readdir(folder)).toEqual(before)
  }
  const missing = await keyhookHere(['backup', 'decrypt', join(folder, 'none'), '--to', 'x'], environment)
  expect(missing).toMatchObject({ code: 2, stderr: expect.stringContaining('cannot be used (ENOENT)') })
})

/** Runs a block of docs/databases.md in the folder of the archive, and returns the names that are there afterwards. */
async function runBlock(
  about: string,
  { folder, environment, databaseId, backupId }: Awaited<ReturnType<typeof storedArchive>>,
) {
  const block = blocksOf(await readFile(join(root, 'docs/databases.md'), 'utf8')).find((one) => one.about === about)!
  const script = block.text.replaceAll('bak_0000', backupId).replaceAll('db_0000', databaseId).replaceAll('npx ', '')
  const PATH = [join(root, 'node_modules/.bin'), process.env.PATH].join(delimiter)
  await run('bash', ['-euc', script], { cwd: folder, env: { ...process.env, PATH, ...environment } })
}

test('the commands of docs/databases.md decrypt and unpack an archive', async (context) => {
  if (!(await hasProgram('zstd', '--version'))) return context.skip('no zstd program for tar')
  const archive = await storedArchive()
  await runBlock('archive', archive)
  expect((await readdir(join(archive.folder, 'orders'))).sort()).toEqual(['PG_VERSION', 'keyhook-manifest.json'])
})

test('the age tool decrypts an archive with the identity of its database', async (context) => {
  if (!(await hasProgram('age', '--version'))) return context.skip('no age program (https://age-encryption.org)')
  const archive = await storedArchive()
  await runBlock('age', archive)
  expect((await readFile(join(archive.folder, 'orders.tar.zst'))).equals(archive.plain)).toBe(true)
})
