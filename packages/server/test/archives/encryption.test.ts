import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createEncryption, readLabel } from '../../src/archives/encryption.ts'
import { createMasterKeys } from '../../src/lib/master-keys.ts'
import { DamagedArchive } from '../../src/lib/step-failure.ts'
import { collect, stream } from './store-conformance.ts'

const [key, otherKey] = [randomBytes(32), randomBytes(32)]
const encryption = createEncryption(createMasterKeys([key]))
const name = 'backups/db_1/bak_1.tar.zst.age'
const encrypted = (content: Uint8Array, under = encryption, as = name) => collect(under.encrypt(as, stream(content)))
const decrypted = (file: Uint8Array, under = encryption, as = name) => collect(under.decrypt(as, stream(file)))

test('what was encrypted is decrypted, of any length and in any pieces', async () => {
  const chunk = 64 * 1024
  for (const length of [0, 1, chunk - 1, chunk, chunk + 1, 3 * chunk, 1_000_000]) {
    const content = randomBytes(length)
    const file = await encrypted(content)
    expect((await decrypted(file)).equals(content), `${length} bytes`).toBe(true)
    const pieces = Array.from({ length: Math.ceil(file.length / 777) }, (_, n) => file.subarray(n * 777, n * 777 + 777))
    expect((await collect(encryption.decrypt(name, stream(...pieces)))).equals(content)).toBe(true)
  }
})

test('a flipped bit, a missing end and bytes after the end are found, wherever they are', async () => {
  const content = randomBytes(150_000)
  const file = await encrypted(content)
  const header = file.indexOf('\n--- ') + 60
  const place = fc.oneof(fc.nat(header), fc.nat(file.length - 1))
  await fc.assert(
    fc.asyncProperty(place, fc.integer({ min: 0, max: 7 }), async (at, bit) => {
      const changed = Buffer.from(file)
      changed[at] = changed[at]! ^ (1 << bit)
      await expect(decrypted(changed)).rejects.toThrow(/The archive (is damaged|cannot be decrypted)/)
    }),
    { numRuns: 150 },
  )
  const chunk = 64 * 1024 + 16
  const payload = file.length - Math.floor(file.length / chunk) * chunk
  for (const length of [0, 1, 20, header, file.length - chunk, file.length - 1, payload]) {
    await expect(decrypted(file.subarray(0, length)), `${length} bytes`).rejects.toBeInstanceOf(DamagedArchive)
  }
  await expect(decrypted(Buffer.concat([file, Buffer.from('x')]))).rejects.toBeInstanceOf(DamagedArchive)
})

test('chunks in another order, or of another file, are found', async () => {
  const chunk = 64 * 1024 + 16
  const file = await encrypted(randomBytes(200_000))
  const other = await encrypted(randomBytes(200_000))
  const start = file.length - (200_000 + 16 * 4)
  const at = (n: number) => [start + n * chunk, start + (n + 1) * chunk] as const
  const swapped = Buffer.from(file)
  file.copy(swapped, at(0)[0], ...at(1))
  file.copy(swapped, at(1)[0], ...at(0))
  await expect(decrypted(swapped)).rejects.toBeInstanceOf(DamagedArchive)
  const mixed = Buffer.from(file)
  other.copy(mixed, at(1)[0], ...at(1))
  await expect(decrypted(mixed)).rejects.toBeInstanceOf(DamagedArchive)
})

test('an object under the name of another one is rejected before its first byte, of the same and of another database', async () => {
  const content = randomBytes(1_000)
  for (const other of ['backups/db_1/bak_2.tar.zst.age', 'backups/db_2/bak_1.tar.zst.age', 'wal/db_1/bak_1']) {
    const file = await encrypted(content, encryption, other)
    const received: Uint8Array[] = []
    const reading = async () => {
      for await (const part of encryption.decrypt(name, stream(file))) received.push(part)
    }
    await expect(reading(), other).rejects.toBeInstanceOf(DamagedArchive)
    expect(received).toEqual([])
  }
})

test('old files stay readable under a new master key, and a key that is missing is named', async () => {
  const content = randomBytes(1_000)
  const old = await encrypted(content)
  const rotated = createEncryption(createMasterKeys([otherKey, key]))
  expect(await decrypted(old, rotated)).toEqual(content)
  const file = await encrypted(content, rotated)
  expect(await readLabel(stream(file))).toEqual({ name, keyId: rotated.currentKeyId })
  expect(await decrypted(file, rotated)).toEqual(content)
  const error = await decrypted(file).catch((caught: Error) => caught)
  expect(error).toMatchObject({ message: 'The archive cannot be decrypted now.', permanent: true })
  expect(String((error as Error).cause)).toContain(`under master key ${rotated.currentKeyId}`)
})

test('a file without our label is rejected, although its identity is ours', async () => {
  const { Encrypter, identityToRecipient } = await import('age-encryption')
  const encrypter = new Encrypter()
  encrypter.addRecipient(await identityToRecipient(encryption.identitiesOf('db_1')[0]!))
  await expect(decrypted(await encrypter.encrypt('x'))).rejects.toThrow('it is another object')
})

test('a store that sends garbage, or a header without an end, is rejected with little memory', async () => {
  await expect(decrypted(randomBytes(100_000))).rejects.toBeInstanceOf(DamagedArchive)
  let sent = 0
  async function* endless(): AsyncGenerator<Uint8Array> {
    yield Buffer.from('age-encryption.org/v1\n-> ')
    for (;;) {
      sent += 10_000
      yield Buffer.alloc(10_000, 'a')
    }
  }
  await expect(collect(encryption.decrypt(name, endless()))).rejects.toThrow('its header has no end')
  expect(sent).toBeLessThan(2_000_000)
})

test('errors of the source are passed on, and the source has ended when a reader stops early', async () => {
  let stage = 'not started'
  async function* source(): AsyncGenerator<Uint8Array> {
    try {
      for (;;) {
        stage = 'started'
        yield randomBytes(100_000)
      }
    } finally {
      await sleep(20)
      stage = 'ended'
    }
  }
  for await (const _part of encryption.encrypt(name, source())) break
  expect(stage).toBe('ended')
  async function* failing(): AsyncGenerator<Uint8Array> {
    yield randomBytes(100_000)
    throw new Error('the source failed')
  }
  await expect(collect(encryption.encrypt(name, failing()))).rejects.toThrow('the source failed')
  const file = await encrypted(randomBytes(300_000))
  async function* interrupted(): AsyncGenerator<Uint8Array> {
    yield file.subarray(0, 200_000)
    throw new Error('the connection failed')
  }
  await expect(collect(encryption.decrypt(name, interrupted()))).rejects.toThrow('the connection failed')
})
