import { hash } from 'node:crypto'

/** Of a text and the bytes behind it. */
export type Mac = (text: string, bytes: Uint8Array, encoding: 'hex' | 'base64') => string

const blockBytes = 64
const digestBytes = 32
/** Holds what is hashed, for one call at a time; as large as the largest was. */
let message = Buffer.alloc(4_096)

/**
 * HMAC-SHA-256 in the words of RFC 2104: a hash over the key and a hash over the key and the message. Node's `createHmac` makes an
 * object of OpenSSL's each time, which takes longer than the hashing and has to be collected: that was a thirteenth of all that a
 * dispatcher did.
 */
export function createMac(key: Uint8Array): Mac {
  const block = Buffer.alloc(blockBytes)
  block.set(key.length > blockBytes ? hash('sha256', key, 'buffer') : key)
  const innerKey = block.map((byte) => byte ^ 0x36)
  const outer = Buffer.concat([block.map((byte) => byte ^ 0x5c), Buffer.alloc(digestBytes)])

  return (text, bytes, encoding) => {
    const size = blockBytes + Buffer.byteLength(text) + bytes.length
    if (size > message.length) message = Buffer.alloc(size)
    message.set(innerKey)
    message.write(text, blockBytes)
    message.set(bytes, size - bytes.length)
    // As a text of one character a byte: a buffer would be one more thing to collect.
    outer.write(hash('sha256', message.subarray(0, size), 'latin1'), blockBytes, 'latin1')
    return hash('sha256', outer, encoding)
  }
}
