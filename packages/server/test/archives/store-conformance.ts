import { createHash, randomBytes } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import { type ArchiveStore, MissingObject } from '../../src/archives/archive-store.ts'

/** How a store is opened, and how a `put` of it is interrupted as by a killed process. */
export type StoreUnderTest = {
  /** An empty store. A second call with the same `place` opens the same one, as after a restart. */
  open(place: string): Promise<ArchiveStore>
  /** Larger than what the store sends at once. */
  largeBytes: number
  /** Leaves parts of an object as a process does that is killed during `put`. */
  interruptPut(place: string, name: string): Promise<void>
}

export async function* stream(...parts: Uint8Array[]): AsyncGenerator<Uint8Array> {
  yield* parts
}

export async function collect(parts: AsyncIterable<Uint8Array>): Promise<Buffer> {
  return Buffer.concat(await Array.fromAsync(parts))
}

const sha256 = (content: Uint8Array) => createHash('sha256').update(content).digest('hex')
const namesOf = async (store: ArchiveStore, prefix: string) =>
  (await Array.fromAsync(store.list(prefix))).map(({ name }) => name)
const unfinishedOf = (store: ArchiveStore, prefix: string) => Array.fromAsync(store.unfinished(prefix))

/** What every store has to do. Each test gets a store of its own. */
export function testStore(label: string, under: StoreUnderTest): void {
  let count = 0
  const fresh = async () => {
    const place = `place-${process.pid}-${++count}`
    const store = await under.open(place)
    onTestFinished(async () => {
      for await (const { name } of store.list('')) await store.remove(name)
      for await (const name of store.unfinished('')) await store.remove(name)
    })
    return { store, place }
  }

  test(`${label}: what is put is what is got, with its length and checksum, also after a restart`, async () => {
    const { store, place } = await fresh()
    const large = randomBytes(under.largeBytes)
    for (const [name, content] of [
      ['empty', Buffer.alloc(0)],
      ['backups/db_1/one.tar', Buffer.from('one')],
      ['backups/db_1/large.tar', large],
    ] as const) {
      const parts = Array.from({ length: Math.ceil(content.length / 100_000) }, (_, n) =>
        content.subarray(n * 100_000, (n + 1) * 100_000),
      )
      expect(await store.put(name, stream(...parts))).toEqual({ bytes: content.length, sha256: sha256(content) })
      const again = await under.open(place)
      expect(sha256(await collect(again.get(name)))).toBe(sha256(content))
      expect(await again.head(name)).toEqual({ bytes: content.length })
    }
  })

  test(`${label}: an object that does not exist is reported as missing, and can be removed`, async () => {
    const { store } = await fresh()
    await expect(collect(store.get('backups/db_1/none'))).rejects.toBeInstanceOf(MissingObject)
    expect(await store.head('backups/db_1/none')).toBeNull()
    await store.remove('backups/db_1/none')
    expect(await namesOf(store, '')).toEqual([])
  })

  test(`${label}: lists by prefix, in the order of names, with lengths`, async () => {
    const { store } = await fresh()
    for (const name of ['wal/db_2/3', 'wal/db_1/b', 'wal/db_1/a', 'wal/db_10/a', 'backups/db_1/a'])
      await store.put(name, stream(Buffer.from(name)))
    expect(await Array.fromAsync(store.list('wal/db_1/'))).toEqual([
      { name: 'wal/db_1/a', bytes: 10 },
      { name: 'wal/db_1/b', bytes: 10 },
    ])
    expect(await namesOf(store, 'wal/db_1')).toEqual(['wal/db_1/a', 'wal/db_1/b', 'wal/db_10/a'])
    expect(await namesOf(store, '')).toHaveLength(5)
    expect(await namesOf(store, 'nothing/')).toEqual([])
  })

  test(`${label}: a second put replaces the object, and remove removes it alone`, async () => {
    const { store } = await fresh()
    await store.put('wal/db_1/a', stream(Buffer.from('first')))
    await store.put('wal/db_1/a', stream(Buffer.from('second')))
    await store.put('wal/db_1/a.more', stream(Buffer.from('other')))
    expect((await collect(store.get('wal/db_1/a'))).toString()).toBe('second')
    await store.remove('wal/db_1/a')
    await store.remove('wal/db_1/a')
    expect(await namesOf(store, '')).toEqual(['wal/db_1/a.more'])
  })

  test(`${label}: a put whose content fails or is aborted stores nothing, and keeps what was there`, async () => {
    const { store } = await fresh()
    const large = randomBytes(under.largeBytes)
    await store.put('backups/db_1/a', stream(Buffer.from('before')))
    async function* failing(): AsyncGenerator<Uint8Array> {
      yield large
      throw new Error('the source failed')
    }
    await expect(store.put('backups/db_1/a', failing())).rejects.toThrow('the source failed')
    await expect(store.put('backups/db_2/b', failing())).rejects.toThrow('the source failed')
    const stop = new AbortController()
    async function* aborted(): AsyncGenerator<Uint8Array> {
      yield large
      stop.abort(new Error('stopped'))
      yield large
    }
    await expect(store.put('backups/db_3/c', aborted(), { signal: stop.signal })).rejects.toThrow('stopped')
    expect(await namesOf(store, '')).toEqual(['backups/db_1/a'])
    expect(await unfinishedOf(store, '')).toEqual([])
    expect((await collect(store.get('backups/db_1/a'))).toString()).toBe('before')
  })

  test(`${label}: what a killed put left is no object; the next put or a remove clears it`, async () => {
    const { store, place } = await fresh()
    for (const name of ['backups/db_1/a', 'backups/db_1/b']) await under.interruptPut(place, name)
    expect(await namesOf(store, '')).toEqual([])
    expect(await store.head('backups/db_1/a')).toBeNull()
    await expect(collect(store.get('backups/db_1/a'))).rejects.toBeInstanceOf(MissingObject)
    expect((await unfinishedOf(store, 'backups/')).sort()).toEqual(['backups/db_1/a', 'backups/db_1/b'])
    expect(await unfinishedOf(store, 'wal/')).toEqual([])
    await store.put('backups/db_1/a', stream(Buffer.from('whole')))
    expect(await unfinishedOf(store, '')).toEqual(['backups/db_1/b'])
    await store.remove('backups/db_1/b')
    expect(await unfinishedOf(store, '')).toEqual([])
    expect((await collect(store.get('backups/db_1/a'))).toString()).toBe('whole')
  })

  test(`${label}: a reader that stops early leaves nothing open`, async () => {
    const { store } = await fresh()
    await store.put('backups/db_1/a', stream(randomBytes(under.largeBytes)))
    for (let n = 0; n < 20; n++) {
      for await (const part of store.get('backups/db_1/a')) {
        expect(part.length).toBeGreaterThan(0)
        break
      }
    }
    expect(await store.head('backups/db_1/a')).toEqual({ bytes: under.largeBytes })
  })

  test(`${label}: names that lead elsewhere are rejected`, async () => {
    const { store } = await fresh()
    for (const name of ['', '/a', 'a/', 'a//b', '../a', 'a/../b', './a', 'a/.b', 'a b', 'a\0', 'ä', 'x'.repeat(501)]) {
      await expect(store.put(name, stream()), name).rejects.toThrow('not a name of an object')
      await expect(store.head(name), name).rejects.toThrow('not a name of an object')
      await expect(store.remove(name), name).rejects.toThrow('not a name of an object')
      await expect(collect(store.get(name)), name).rejects.toThrow('not a name of an object')
    }
  })

  test(`${label}: removals and puts in the same place at the same time do not disturb each other`, async () => {
    const { store } = await fresh()
    await Promise.all(
      Array.from({ length: 40 }, async (_, n) => {
        await store.put(`wal/db_1/${n}`, stream(Buffer.from(String(n))))
        if (n % 2 === 0) await store.remove(`wal/db_1/${n}`)
      }),
    )
    expect(await namesOf(store, '')).toHaveLength(20)
    expect((await collect(store.get('wal/db_1/7'))).toString()).toBe('7')
  })
}
