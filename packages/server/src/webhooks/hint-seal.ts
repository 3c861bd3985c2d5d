import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto'
import type { MasterKeys } from '../kernel/master-keys.ts'

const cipher = 'aes-256-gcm'
const senderBytes = 16
const nonceBytes = 12
const tagBytes = 16
const keyBytes = 32
/** Senders whose keys are kept. There are as many as processes; and anybody may claim to be one. */
const sendersMax = 64

/**
 * Whoever may connect to a database may listen to what is said there, and say something. So what processes say to each other
 * is sealed: nobody else reads it, and nobody else is believed. Each process seals with a key of its own, which is derived from the
 * master key and the name that the process has drawn for itself; so numbers serve as nonces, and none is ever used twice.
 */
export function createHintSeal(masterKeys: Pick<MasterKeys, 'derive'>) {
  const name = randomBytes(senderBytes)
  const sender = name.toString('base64url')
  const roots = masterKeys.derive('hints')
  const keysOf = (from: Buffer): Buffer[] =>
    roots.map((root) => Buffer.from(hkdfSync('sha256', root, from, 'keyhook hint', keyBytes)))
  const [own] = keysOf(name)
  const known = new Map<string, Buffer[]>()
  let sealed = 0

  function keysOfSender(text: string): Buffer[] {
    const before = known.get(text)
    if (before !== undefined) return before
    if (known.size >= sendersMax) known.delete(known.keys().next().value!)
    const keys = keysOf(Buffer.from(text, 'base64url'))
    known.set(text, keys)
    return keys
  }

  return {
    sender,
    isOwn: (payload: string) => payload.startsWith(sender),
    seal(text: string): string {
      const nonce = Buffer.alloc(nonceBytes)
      nonce.writeUIntBE(++sealed, nonceBytes - 6, 6)
      const sealing = createCipheriv(cipher, own!, nonce)
      const box = Buffer.concat([nonce, sealing.update(text, 'utf8'), sealing.final(), sealing.getAuthTag()])
      return `${sender}.${box.toString('base64')}`
    },
    /** Null where there is nothing to open, or where it is nobody's whom we know. */
    open(payload: string): string | null {
      const end = payload.indexOf('.')
      const box = Buffer.from(payload.slice(end + 1), 'base64')
      if (end !== sender.length || box.length < nonceBytes + tagBytes) return null
      for (const key of keysOfSender(payload.slice(0, end))) {
        const opening = createDecipheriv(cipher, key, box.subarray(0, nonceBytes))
        opening.setAuthTag(box.subarray(-tagBytes))
        try {
          const text = opening.update(box.subarray(nonceBytes, -tagBytes))
          return Buffer.concat([text, opening.final()]).toString('utf8')
        } catch {
          // Not with this key.
        }
      }
      return null
    },
  }
}
