import { createHash, randomBytes } from 'node:crypto'
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { ArchiveStore } from '../../src/archives/archive-store.ts'
import { createBackupArchives } from '../../src/archives/backup-archives.ts'
import { createDirectoryStore } from '../../src/archives/directory-store.ts'
import { createEncryption } from '../../src/archives/encryption.ts'
import { newId } from '../../src/lib/ids.ts'
import { createMasterKeys } from '../../src/lib/master-keys.ts'
import { DamagedArchive } from '../../src/lib/step-failure.ts'
import { collect, stream } from './store-conformance.ts'

let root: string
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'keyhook-store-'))
})
afterAll(() => rm(root, { recursive: true }))

const encryption = createEncryption(createMasterKeys([randomBytes(32)]))
const archive = () => ({ databaseId: newId('db'), backupId: newId('bak') })

test('archives from before they were sorted by database are still read, listed and removed', async () => {
  const path = join(root, 'old')
  const archives = createBackupArchives({ store: createDirectoryStore(path), encryption, encrypts: false })
  const [databaseId, backupId, unfinished] = [newId('db'), newId('bak'), newId('bak')]
  await mkdir(path)
  await writeFile(join(path, `${backupId}.tar.zst`), 'old')
  await writeFile(join(path, `${unfinished}.tar.zst.writing-abc`), 'half')
  expect((await archives.existing()).sort()).toEqual([backupId, unfinished].sort())
  const sha256 = createHash('sha256').update('old').digest('hex')
  expect((await collect(archives.read({ databaseId, backupId }, { sha256, keyId: null }))).toString()).toBe('old')
  for (const id of [backupId, unfinished]) await archives.remove({ databaseId, backupId: id })
  expect(await readdir(path)).toEqual([])
})

test('an archive that is missing, or is not the one that was stored, is reported as damage', async () => {
  const store = createDirectoryStore(join(root, 'damaged'))
  const archives = createBackupArchives({ store, encryption, encrypts: false })
  const one = archive()
  const { sha256 } = await archives.write(one, stream(Buffer.from('one')))
  expect((await collect(archives.read(one, { sha256, keyId: null }))).toString()).toBe('one')
  const other = archive()
  await archives.write(other, stream(Buffer.from('two')))
  await expect(collect(archives.read(other, { sha256, keyId: null }))).rejects.toThrow(
    'its checksum is not the stored one',
  )
  await archives.remove(one)
  await expect(collect(archives.read(one, { sha256, keyId: null }))).rejects.toBeInstanceOf(DamagedArchive)
  expect(await archives.existing()).toEqual([other.backupId])
})

test('new archives are encrypted, and both kinds stay readable when the setting changes', async () => {
  const store = createDirectoryStore(join(root, 'kinds'))
  const [one, other] = [archive(), archive()]
  const encrypting = createBackupArchives({ store, encryption, encrypts: true })
  const plain = createBackupArchives({ store, encryption, encrypts: false })
  const sealed = await encrypting.write(one, stream(Buffer.from('the secret')))
  const open = await plain.write(other, stream(Buffer.from('no secret')))
  expect([sealed.keyId, open.keyId]).toEqual([encryption.currentKeyId, null])
  const stored = await collect(store.get(`backups/${one.databaseId}/${one.backupId}.tar.zst.age`))
  expect(stored.includes('the secret')).toBe(false)
  expect(createHash('sha256').update(stored).digest('hex')).toBe(sealed.sha256)
  for (const archives of [encrypting, plain]) {
    expect((await collect(archives.read(one, sealed))).toString()).toBe('the secret')
    expect((await collect(archives.read(other, open))).toString()).toBe('no secret')
  }
})

test('a plain archive in the place of an encrypted one is refused, whatever the setting is', async () => {
  const store = createDirectoryStore(join(root, 'forged'))
  const one = archive()
  const encrypting = createBackupArchives({ store, encryption, encrypts: true })
  const { keyId } = await encrypting.write(one, stream(Buffer.from('the rows')))
  const plain = createBackupArchives({ store, encryption, encrypts: false })
  const { sha256 } = await plain.write(one, stream(Buffer.from('other rows')))
  await store.remove(`backups/${one.databaseId}/${one.backupId}.tar.zst.age`)
  for (const archives of [encrypting, plain])
    await expect(collect(archives.read(one, { sha256, keyId }))).rejects.toThrow(DamagedArchive)
})

test('archives of an older store are read and removed, and new ones are not written there', async () => {
  const [directory, bucket] = ['older', 'newer'].map((name) => createDirectoryStore(join(root, name))) as [
    ArchiveStore,
    ArchiveStore,
  ]
  const [one, other] = [archive(), archive()]
  const before = createBackupArchives({ store: directory, encryption, encrypts: true })
  const after = createBackupArchives({ store: bucket, olderStores: [directory], encryption, encrypts: true })
  const old = await before.write(one, stream(Buffer.from('old')))
  await after.write(other, stream(Buffer.from('new')))
  expect((await collect(after.read(one, old))).toString()).toBe('old')
  expect((await after.existing()).sort()).toEqual([one.backupId, other.backupId].sort())
  expect(await before.existing()).toEqual([one.backupId])
  await after.remove(one)
  expect(await before.existing()).toEqual([])
})

test('removing a database removes its backups, its WAL and what is unfinished, in every store', async () => {
  const [directory, bucket] = ['erased-older', 'erased-newer'].map((name) => createDirectoryStore(join(root, name)))
  const [one, other] = [archive(), archive()]
  const archives = createBackupArchives({ store: bucket!, olderStores: [directory!], encryption, encrypts: true })
  await createBackupArchives({ store: directory!, encryption, encrypts: false }).write(one, stream(Buffer.from('old')))
  await archives.write({ ...one, backupId: newId('bak') }, stream(Buffer.from('new')))
  await bucket!.put(`wal/${one.databaseId}/000000010000000000000001.zst`, stream(Buffer.from('wal')))
  await bucket!.put(`wal/${other.databaseId}/000000010000000000000001.zst`, stream(Buffer.from('wal')))
  await archives.write(other, stream(Buffer.from('kept')))
  // What a killed process leaves.
  await writeFile(
    join(root, `erased-newer/wal/${one.databaseId}/000000010000000000000002.zst.writing-0123456789ab`),
    'x',
  )
  expect(await archives.removeDatabase(one.databaseId)).toBe(4)
  const left = await readdir(root, { recursive: true })
  expect(left.filter((name) => name.includes(one.databaseId))).toEqual([])
  expect(left.filter((name) => name.includes(other.databaseId)).length).toBeGreaterThan(2)
})
