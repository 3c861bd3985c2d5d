import { randomBytes } from 'node:crypto'
import { mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { newId } from '../../src/kernel/ids.ts'
import { createMasterKeys } from '../../src/kernel/master-keys.ts'
import { createDirectoryStore } from '../../src/platform/archive/directory-store.ts'
import { createEncryption } from '../../src/platform/archive/encryption.ts'
import { createWalArchive } from '../../src/platform/archive/wal-archive.ts'
import { DamagedArchive } from '../../src/platform/driver.ts'
import { lsnOf, positionOf, segmentAfter, segmentNamed, segmentOf } from '../../src/platform/wal-names.ts'

const { signal } = new AbortController()

async function openArchive({ encrypts = false } = {}) {
  const folder = await mkdtemp(join(tmpdir(), 'keyhook-wal-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const store = createDirectoryStore(folder)
  const id = newId('db')
  const encryption = createEncryption(createMasterKeys([randomBytes(32)]))
  const archive = createWalArchive({ store, encryption, encrypts })
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
    await archive.write(id, name, contents.get(name)!, { signal })
  }
  await archive.write(id, '00000002.history', Buffer.from('1\t0/3000000'), { signal })
  // The backup ended in segment 2, which its own archive has; 5 begins where the wanted WAL ends.
  const files = await archive.between(id, { from: '0/2000100', until: '0/5000000' })
  expect(files.map(({ name }) => name)).toEqual([
    segmentNamed('00000001', 3),
    segmentNamed('00000001', 4),
    '00000002.history',
  ])
  expect(await files[0]!.read()).toEqual(contents.get(segmentNamed('00000001', 3)))
  expect(await archive.between(newId('db'), { from: '0/2000100', until: '0/3000000' })).toEqual([])

  await store.remove(`wal/${id}/${segmentNamed('00000001', 4)}.zst`)
  await expect(archive.between(id, { from: '0/2000100', until: '0/5000000' })).rejects.toThrow(DamagedArchive)
  await expect(archive.between(id, { from: '0/2000100', until: '0/4000000' })).resolves.toHaveLength(2)
})

test('a segment is stored once, and never replaced by another', async () => {
  const { archive, id, folder } = await openArchive()
  const name = segmentNamed('00000001', 1)
  await archive.write(id, name, Buffer.from('first'), { signal })
  await archive.write(id, name, Buffer.from('first'), { signal })
  await expect(archive.write(id, name, Buffer.from('other'), { signal })).rejects.toThrow(/with other content/)
  const [file] = await archive.between(id, { from: '0/1000000', until: '0/2000000' })
  expect(await file!.read()).toEqual(Buffer.from('first'))
  await writeFile(join(folder, 'wal', id, `${name}.zst`), 'damaged')
  await expect(file!.read()).rejects.toThrow(DamagedArchive)
})

test('only what is before a position is removed, and everything without one', async () => {
  const { archive, id, names } = await openArchive()
  for (const position of [1, 2, 3])
    await archive.write(id, segmentNamed('00000001', position), Buffer.from('x'), { signal })
  await archive.write(id, '00000002.history', Buffer.from('x'), { signal })
  await archive.removeBefore(id, '0/2000028')
  expect(await names()).toEqual([
    `${segmentNamed('00000001', 2)}.zst`,
    `${segmentNamed('00000001', 3)}.zst`,
    '00000002.history.zst',
  ])
  await archive.removeBefore(id, null)
  expect(await archive.between(id, { from: '0/1000000', until: '0/1000000' })).toEqual([])
})

test('files are encrypted where backups are, each under its own name', async () => {
  const { archive, id, folder, names } = await openArchive({ encrypts: true })
  const [first, second] = [1, 2].map((position) => segmentNamed('00000001', position)) as [string, string]
  const secret = Buffer.alloc(1_000, 'a customer’s row ')
  for (const name of [first, second]) await archive.write(id, name, secret, { signal })
  await archive.write(id, first, secret, { signal })
  await expect(archive.write(id, first, Buffer.from('other'), { signal })).rejects.toThrow(/with other content/)
  expect(await names()).toEqual([`${first}.zst.age`, `${second}.zst.age`])
  const file = join(folder, 'wal', id, `${first}.zst.age`)
  expect((await readFile(file)).includes('customer')).toBe(false)
  const [found] = await archive.between(id, { from: '0/1000000', until: '0/2000000' })
  expect(await found!.read()).toEqual(secret)
  await rename(join(folder, 'wal', id, `${second}.zst.age`), file)
  await expect(found!.read()).rejects.toThrow(DamagedArchive)
})
