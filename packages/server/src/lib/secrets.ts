import { hash, randomBytes, randomInt } from 'node:crypto'
import { crc32 } from 'node:zlib'

/** Characters without a special meaning in shells, URLs, headers and connection strings. */
const base62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

/** 5.95 random bits per character. */
export function randomBase62(length: number): string {
  let text = ''
  for (let i = 0; i < length; i++) text += base62[randomInt(base62.length)]
  return text
}

/** The secret of a cookie or a link. Only its hash is stored. */
export const newSecret = () => randomBytes(32).toString('base64url')
export const secretHash = (secret: string): Buffer => hash('sha256', secret, 'buffer')

/*
 * A key is <tag>_<8>_<32>, in base62. The last six characters are the CRC-32 of everything before them: typos and random strings
 * are rejected without a query, and secret scanners recognize leaked keys.
 */
const prefixLength = 8
const secretLength = 26
const checksumLength = 6

/** Any tag is accepted: changing KEYHOOK_KEY_TAG must not invalidate existing keys. */
const keyShape = /^[a-z][a-z0-9]{0,9}_[0-9A-Za-z]{8}_[0-9A-Za-z]{32}$/

/** No underscore, so that <tag>_<8> is unambiguous. */
export const keyTagShape = /^[a-z][a-z0-9]{0,9}$/

export type MintedKey = { apiKey: string; keyPrefix: string; hash: string }

export function mintApiKey(tag: string): MintedKey {
  const keyPrefix = `${tag}_${randomBase62(prefixLength)}`
  const unchecked = `${keyPrefix}_${randomBase62(secretLength)}`
  const apiKey = unchecked + checksum(unchecked)
  return { apiKey, keyPrefix, hash: hashApiKey(apiKey) }
}

export function isApiKey(token: string): boolean {
  if (!keyShape.test(token)) return false
  return checksum(token.slice(0, -checksumLength)) === token.slice(-checksumLength)
}

/** SHA-256 in hex. A slow hash would add nothing: 155 random bits cannot be guessed. */
export const hashApiKey = (apiKey: string): string => hash('sha256', apiKey)

function checksum(text: string): string {
  let rest = crc32(text)
  let digits = ''
  for (let i = 0; i < checksumLength; i++) {
    digits = base62[rest % 62] + digits
    rest = Math.floor(rest / 62)
  }
  return digits
}
