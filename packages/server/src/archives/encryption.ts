import { bech32 } from '@scure/base'
import { Decrypter, Encrypter, type Identity, identityToRecipient, Stanza } from 'age-encryption'
import type { MasterKeys } from '../lib/master-keys.ts'
import { DamagedArchive, StepFailure } from '../lib/step-failure.ts'

/**
 * Encrypts objects of a store as age files (https://age-encryption.org/v1), which the stock `age` tool can decrypt. Each file
 * has a random key, wrapped for an X25519 identity that is derived from the master key and the database id. The store never
 * learns the public half, so it cannot make a file that opens. docs/databases.md explains it.
 */
export type Encryption = {
  /** Of the master key that new objects are encrypted under. */
  currentKeyId: string
  encrypt(name: string, content: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array>
  /** Throws `DamagedArchive` for anything but what `encrypt` made under that name, before the end of the content. */
  decrypt(name: string, content: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array>
  /** What `age -i` needs for the objects of one database, one per master key, the current one first. */
  identitiesOf(databaseId: string): string[]
}

/** The suffix of encrypted objects. */
export const encryptedSuffix = '.age'

/** A stanza of the header that age ignores but authenticates: the id of the master key and the name of the object. */
const stanzaType = 'keyhook'

/** Ours has a few hundred bytes. A store that sends no end of it must not fill the memory. */
const headerBytesMax = 1024 * 1024

export function createEncryption(masterKeys: MasterKeys): Encryption {
  const identitiesOf = (databaseId: string): string[] =>
    masterKeys
      .derive(`archives of ${databaseId}`)
      .map((key) => bech32.encodeFromBytes('AGE-SECRET-KEY-', key).toUpperCase())

  return {
    currentKeyId: masterKeys.currentKeyId,
    identitiesOf,
    async *encrypt(name, content) {
      const encrypter = new Encrypter()
      const label = new Stanza([stanzaType, masterKeys.currentKeyId, name], new Uint8Array())
      encrypter.addRecipient({ wrapFileKey: () => [label] })
      encrypter.addRecipient(await identityToRecipient(identitiesOf(databaseOf(name))[0]!))
      const source = content[Symbol.asyncIterator]()
      try {
        yield* await encrypter.encrypt(ReadableStream.from({ [Symbol.asyncIterator]: () => source }))
      } finally {
        // The stream does not wait for its source, but whoever reads us must find it ended.
        await source.return?.()
      }
    },
    async *decrypt(name, content) {
      const decrypter = new Decrypter()
      const label = createLabelReader()
      decrypter.addIdentity(label)
      for (const identity of identitiesOf(databaseOf(name))) decrypter.addIdentity(identity)
      let sourceError: unknown
      let headerIsRead = false
      async function* source(): AsyncGenerator<Uint8Array> {
        try {
          let bytes = 0
          for await (const part of content) {
            bytes += part.length
            if (!headerIsRead && bytes > headerBytesMax) throw new DamagedArchive('its header has no end')
            yield part
          }
        } catch (error) {
          sourceError = error
          throw error
        }
      }
      const reading = source()
      try {
        const plain = await decrypter.decrypt(ReadableStream.from(reading))
        headerIsRead = true
        if (label.name() !== name) throw new DamagedArchive('it is another object')
        yield* plain
      } catch (error) {
        if (error === sourceError || error instanceof DamagedArchive) throw error
        const keyId = label.keyId()
        if (!headerIsRead && keyId !== undefined && !masterKeys.keyIds.includes(keyId)) throw keyIsMissing(keyId)
        throw new DamagedArchive('it cannot be decrypted', error)
      } finally {
        await reading.return(undefined)
      }
    },
  }
}

/** The name and key id that the header of an encrypted object gives. Nothing is verified. */
export async function readLabel(content: AsyncIterable<Uint8Array>): Promise<{ name: string; keyId: string } | null> {
  const label = createLabelReader()
  const decrypter = new Decrypter()
  decrypter.addIdentity(label)
  await decrypter.decrypt(ReadableStream.from(content)).catch(() => {})
  const [name, keyId] = [label.name(), label.keyId()]
  return name === undefined || keyId === undefined ? null : { name, keyId }
}

/** `backups/db_…/bak_…`: the second part. Each database has its own identity. */
const databaseOf = (name: string): string => name.split('/')[1] ?? ''

/** Opens nothing itself: age shows the stanzas of the header to every identity. */
function createLabelReader(): Identity & { keyId(): string | undefined; name(): string | undefined } {
  let label: Stanza | undefined
  return {
    unwrapFileKey(stanzas) {
      label = stanzas.find(({ args }) => args[0] === stanzaType)
      return null
    },
    keyId: () => label?.args[1],
    name: () => label?.args[2],
  }
}

const keyIsMissing = (keyId: string): StepFailure =>
  new StepFailure('The archive cannot be decrypted now.', {
    permanent: true,
    cause: new Error(
      `it is encrypted under master key ${keyId}, which KEYHOOK_MASTER_KEY does not list: list it too, after the current one`,
    ),
  })
