import { createCipheriv, createDecipheriv, createHash, hkdfSync, randomBytes } from 'node:crypto'

const keyBytes = 32
const nonceBytes = 12
const tagBytes = 16

/** What a sealed secret looks like at rest: useless without the master key that `keyId` names. */
export type Sealed = { keyId: string; box: Buffer }

/**
 * The keys that protect secrets at rest. The first one seals; all of them open, so that a new key can be put in front
 * of the old one while secrets are resealed.
 */
export type MasterKeys = {
  currentKeyId: string
  /** Of all of them. */
  keyIds: readonly string[]
  /** `context` is bound into the seal: a box copied to another row does not open there. */
  seal(secret: string, context: string): Sealed
  open(sealed: Sealed, context: string): string
  /** Keys for other purposes, one per master key, current first. Purposes never share a key. */
  derive(purpose: string): Buffer[]
}

export class UnknownMasterKey extends Error {}

export function createMasterKeys(keys: readonly [Buffer, ...Buffer[]]): MasterKeys {
  for (const key of keys) {
    if (key.length !== keyBytes) throw new Error(`a master key has ${keyBytes} bytes, not ${key.length}`)
  }
  const byId = new Map(keys.map((key) => [idOf(key), key]))
  const [current] = keys
  const currentKeyId = idOf(current)

  return {
    currentKeyId,
    keyIds: [...byId.keys()],
    seal(secret, context) {
      const nonce = randomBytes(nonceBytes)
      const cipher = createCipheriv('aes-256-gcm', current, nonce).setAAD(Buffer.from(context))
      const body = Buffer.concat([cipher.update(secret, 'utf8'), cipher.final()])
      return { keyId: currentKeyId, box: Buffer.concat([nonce, body, cipher.getAuthTag()]) }
    },
    open({ keyId, box }, context) {
      const key = byId.get(keyId)
      if (key === undefined) {
        throw new UnknownMasterKey(`sealed under master key ${keyId}, which KEYHOOK_MASTER_KEY does not list`)
      }
      const decipher = createDecipheriv('aes-256-gcm', key, box.subarray(0, nonceBytes))
      decipher.setAAD(Buffer.from(context))
      decipher.setAuthTag(box.subarray(-tagBytes))
      return Buffer.concat([decipher.update(box.subarray(nonceBytes, -tagBytes)), decipher.final()]).toString('utf8')
    },
    derive: (purpose) => keys.map((key) => Buffer.from(hkdfSync('sha256', key, '', `keyhook ${purpose}`, keyBytes))),
  }
}

/** Names a key without giving it away: a truncated hash under a label of its own. */
const idOf = (key: Buffer): string =>
  createHash('sha256').update('keyhook master key id\0').update(key).digest('hex').slice(0, 12)
