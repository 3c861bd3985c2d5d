import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { createDirectoryStore } from '../../../src/archives/directory-store.ts'
import {
  removeBase,
  removeEverything,
  removeWalBefore,
  storedBytes,
} from '../../../src/databases/drivers/kubernetes/backups.ts'
import { nameOf } from '../../../src/databases/drivers/kubernetes/resources.ts'
import { newId } from '../../../src/lib/ids.ts'
import { stream } from '../../archives/store-conformance.ts'

async function bucketOf(...names: string[]) {
  const folder = await mkdtemp(join(tmpdir(), 'keyhook-barman-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const store = createDirectoryStore(folder)
  const id = newId('db')
  const prefix = `kubernetes/${nameOf(id)}/`
  for (const name of names) await store.put(`${prefix}${name}`, stream(Buffer.from('12345')))
  const left = async () => {
    const found: string[] = []
    for await (const { name } of store.list('kubernetes/')) found.push(name.replace(prefix, ''))
    return found.sort()
  }
  return { store, id, left }
}
const segment = (n: number) => `wals/0000000100000000/00000001000000000000000${n}`

test('a backup is complete when its last file is there, and its size is that of all its files', async () => {
  const { store, id } = await bucketOf('base/a/data.tar.gz', 'base/a/backup.info', 'base/b/data.tar.gz')
  expect(await storedBytes(store, id, 'a')).toBe(10)
  expect(await storedBytes(store, id, 'b')).toBeNull()
})

test('removing a backup keeps the others, and removing everything keeps other databases', async () => {
  const { store, id, left } = await bucketOf('base/a/backup.info', 'base/ab/backup.info', `${segment(2)}.gz`)
  await removeBase(store, id, 'a')
  expect(await left()).toEqual(['base/ab/backup.info', `${segment(2)}.gz`])
  await store.put('kubernetes/db-other/base/a/backup.info', stream(Buffer.from('x')))
  await removeEverything(store, id)
  expect(await left()).toEqual(['kubernetes/db-other/base/a/backup.info'])
})

test('WAL is removed only before the position and before the first segment that a backup needs', async () => {
  const wal = [1, 2, 3, 4, 5].map((n) => `${segment(n)}.gz`)
  const history = 'wals/00000002.history.gz'
  const { store, id, left } = await bucketOf(...wal, history)
  await removeWalBefore(store, id, '0/4000028', ['000000010000000000000003'])
  expect(await left()).toEqual([...wal.slice(2), history].sort())
  await removeWalBefore(store, id, '0/4000028', ['000000010000000000000005'])
  expect(await left()).toEqual([...wal.slice(3), history].sort())
})
