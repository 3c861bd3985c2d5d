import { randomBytes } from 'node:crypto'
import { mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { zstdCompressSync } from 'node:zlib'
import { expect, onTestFinished, test } from 'vitest'
import { createDirectoryStore } from '../../src/archives/directory-store.ts'
import { createEncryption } from '../../src/archives/encryption.ts'
import {
  createWalArchive,
  lsnOf,
  positionOf,
  segmentAfter,
  segmentNamed,
  segmentOf,
} from '../../src/archives/wal-archive.ts'
import { newId } from '../../src/lib/ids.ts'
import { createMasterKeys } from '../../src/lib/master-keys.ts'
import { DamagedArchive } from '../../src/lib/step-failure.ts'

const { signal } = new AbortController()
const plainly = { isEncrypted: false, signal }
const encrypted = { isEncrypted: true, signal }

async function openArchive({ encrypts = false } = {}) {
  const folder = await mkdtemp(join(tmpdir(), 'keyhook-wal-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const store = createDirectoryStore(folder)
  const id = newId('db')
  const encryption = createEncryption(createMasterKeys([randomBytes(32)]))
  const archive = createWalArchive({ store, encryption, encrypts })
  expect([archive.encrypts(false), archive.encrypts(true)]).toEqual([encrypts, true])
  const names = async () => (await readdir(join(folder, 'wal', id))).sort()
  return { archive, store, folder, id, names }
}

test('positions and names of segments are those of PostgreSQL', () => {
  expect(segmentNamed('00000001', segmentOf('0/1B81000'))).toBe('000000010000000000000001')
  expect(segmentNamed('0000000A', segmentOf('12/FF000028'))).toBe('0000000A00000012000000FF')
  expect(positionOf('0000000A00000012000000FF')).toBe(0x12 * 256 + 0xff)
  expect(lsnOf(0x12 * 256 + 0xff)).toBe('12/FF000000')
  expect([segmentAfter('0/2000000'), segmentAfter('0/2000001')]).toEqual([2, 3])
  expect(lsnOf(0)).toBe('0/0')
  for (const name of ['00000002.history', '00000001000000000000000G', '../000000010000000000000001'])
    expect(positionOf(name)).toBeNull()
})

test('what follows a backup is returned, and a missing piece is noticed', async () => {
  const { archive, store, id } = await openArchive()
  const contents = new Map<string, Buffer>()
  for (const position of [2, 3, 4, 5]) {
    const name = segmentNamed('00000001', position)
    contents.set(name, randomBytes(1_000))
    await archive.write(id, name, contents.get(name)!, plainly)
  }
  await archive.write(id, '00000002.history', Buffer.from('1\t0/3000000'), plainly)
  // The backup ended in segment 2, which its own archive has; 5 begins where the wanted WAL ends.
  const files = await archive.between(id, { from: '0/2000100', until: '0/5000000', encryptedFrom: null })
  expect(files.map(({ name }) => name)).toEqual([
    segmentNamed('00000001', 3),
    segmentNamed('00000001', 4),
    '00000002.history',
  ])
  expect(await files[0]!.read()).toEqual(contents.get(segmentNamed('00000001', 3)))
  expect(await archive.between(newId('db'), { from: '0/2000100', until: '0/3000000', encryptedFrom: null })).toEqual([])

  await store.remove(`wal/${id}/${segmentNamed('00000001', 4)}.zst`)
  await expect(archive.between(id, { from: '0/2000100', until: '0/5000000', encryptedFrom: null })).rejects.toThrow(
    DamagedArchive,
  )
  await expect(
    archive.between(id, { from: '0/2000100', until: '0/4000000', encryptedFrom: null }),
  ).resolves.toHaveLength(2)
})

test('a segment is stored once, and never replaced by another', async () => {
  const { archive, id, folder } = await openArchive()
  const name = segmentNamed('00000001', 1)
  await archive.write(id, name, Buffer.from('first'), plainly)
  await archive.write(id, name, Buffer.from('first'), plainly)
  await expect(archive.write(id, name, Buffer.from('other'), plainly)).rejects.toThrow(/with other content/)
  const [file] = await archive.between(id, { from: '0/1000000', until: '0/2000000', encryptedFrom: null })
  expect(await file!.read()).toEqual(Buffer.from('first'))
  await writeFile(join(folder, 'wal', id, `${name}.zst`), 'damaged')
  await expect(file!.read()).rejects.toThrow(DamagedArchive)
})

test('only what is before a position is removed, and everything without one', async () => {
  const { archive, id, names } = await openArchive()
  for (const position of [1, 2, 3])
    await archive.write(id, segmentNamed('00000001', position), Buffer.from('x'), plainly)
  await archive.write(id, '00000002.history', Buffer.from('x'), plainly)
  await archive.removeBefore(id, '0/2000028')
  expect(await names()).toEqual([
    `${segmentNamed('00000001', 2)}.zst`,
    `${segmentNamed('00000001', 3)}.zst`,
    '00000002.history.zst',
  ])
  await archive.removeBefore(id, null)
  expect(await archive.between(id, { from: '0/1000000', until: '0/1000000', encryptedFrom: null })).toEqual([])
})

test('files are encrypted where backups are, each under its own name', async () => {
  const { archive, id, folder, names } = await openArchive({ encrypts: true })
  const [first, second] = [1, 2].map((position) => segmentNamed('00000001', position)) as [string, string]
  const secret = Buffer.alloc(1_000, 'a customer’s row ')
  for (const name of [first, second]) await archive.write(id, name, secret, encrypted)
  await archive.write(id, first, secret, encrypted)
  await expect(archive.write(id, first, Buffer.from('other'), encrypted)).rejects.toThrow(/with other content/)
  expect(await names()).toEqual([`${first}.zst.age`, `${second}.zst.age`])
  const file = join(folder, 'wal', id, `${first}.zst.age`)
  expect((await readFile(file)).includes('customer')).toBe(false)
  const [found] = await archive.between(id, { from: '0/1000000', until: '0/2000000', encryptedFrom: null })
  expect(await found!.read()).toEqual(secret)
  await rename(join(folder, 'wal', id, `${second}.zst.age`), file)
  await expect(found!.read()).rejects.toThrow(DamagedArchive)
})

test('where files are encrypted by the record, a plain one beside them or in their place counts for nothing', async () => {
  const { archive, store, id } = await openArchive()
  const names = [1, 2, 3].map((position) => segmentNamed('00000001', position))
  const contents = names.map(() => randomBytes(1_000))
  const forged = randomBytes(1_000)
  // Encryption was turned on before the second one was stored.
  await archive.write(id, names[0]!, contents[0]!, plainly)
  for (const n of [1, 2]) await archive.write(id, names[n]!, contents[n]!, encrypted)
  for (const name of [names[1]!, names[2]!, '00000002.history']) await archive.write(id, name, forged, plainly)
  const range = { from: '0/1000000', until: '0/4000000', encryptedFrom: '0/2000000' }
  const files = await archive.between(id, range)
  expect(files.map(({ name }) => name)).toEqual(names)
  expect(await Promise.all(files.map(({ read }) => read()))).toEqual(contents)
  await store.remove(`wal/${id}/${names[2]}.zst.age`)
  await expect(archive.between(id, range)).rejects.toThrow(DamagedArchive)
  // Writing compares with what counts, and not with the forged one.
  await archive.write(id, names[2]!, contents[2]!, encrypted)
  expect(await (await archive.between(id, range))[2]!.read()).toEqual(contents[2])
})

test('an object that becomes more than a segment, or is larger than one, is refused without unpacking it', async () => {
  const { archive, store, id } = await openArchive()
  const stored = async (name: string, content: Buffer) => {
    async function* once() {
      yield content
    }
    await store.put(`wal/${id}/${name}.zst`, once())
  }
  await stored(segmentNamed('00000001', 1), zstdCompressSync(Buffer.alloc(16 * 1024 * 1024 + 1)))
  await stored(segmentNamed('00000001', 2), zstdCompressSync(Buffer.alloc(256 * 1024 * 1024)))
  await stored(segmentNamed('00000001', 3), randomBytes(18 * 1024 * 1024))
  await stored(segmentNamed('00000001', 4), zstdCompressSync(randomBytes(16 * 1024 * 1024)))
  const files = await archive.between(id, { from: '0/1000000', until: '0/5000000', encryptedFrom: null })
  for (const file of files.slice(0, 3)) await expect(file.read()).rejects.toThrow(DamagedArchive)
  expect(await files[3]!.read()).toHaveLength(16 * 1024 * 1024)
})
