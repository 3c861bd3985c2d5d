import { hash, randomInt } from 'node:crypto'
import { crc32 } from 'node:zlib'

/*
 * A key is <tag>_<8>_<32>, in base62. The last six characters are the CRC-32 of everything before them, so that a typo
 * or a random string is refused without a query, and secret scanners can tell a leaked key from noise.
 */
const base62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const prefixLength = 8
const secretLength = 26
const checksumLength = 6
const untaggedLength = 1 + prefixLength + 1 + secretLength + checksumLength

/** No underscore: <tag>_<8> has to stay unambiguous. */
export const keyTagShape = /^[a-z][a-z0-9]{0,9}$/

export type MintedKey = { apiKey: string; keyPrefix: string; hash: string }

export function mintApiKey(tag: string): MintedKey {
  const keyPrefix = `${tag}_${randomBase62(prefixLength)}`
  const unchecked = `${keyPrefix}_${randomBase62(secretLength)}`
  const apiKey = unchecked + checksum(unchecked)
  return { apiKey, keyPrefix, hash: hashApiKey(apiKey) }
}

/** Any tag is read, not only today's: changing KEYHOOK_KEY_TAG must not lock out keys that were made before. */
export function isApiKey(token: string): boolean {
  const tagLength = token.length - untaggedLength
  if (tagLength < 1 || !keyTagShape.test(token.slice(0, tagLength))) return false
  const secretAt = tagLength + 1 + prefixLength
  if (token[tagLength] !== '_' || token[secretAt] !== '_') return false
  if (!isBase62(token, tagLength + 1, secretAt) || !isBase62(token, secretAt + 1, token.length)) return false
  const checksumAt = token.length - checksumLength
  return base62Value(token, checksumAt) === crc32(token.slice(0, checksumAt))
}

const digitValue = new Map(Array.from(base62, (digit, value) => [digit.charCodeAt(0), value]))
const valueOfCode = Int8Array.from({ length: 128 }, (_, code) => digitValue.get(code) ?? -1)

function isBase62(text: string, from: number, to: number): boolean {
  for (let at = from; at < to; at++) {
    const code = text.charCodeAt(at)
    if (code >= valueOfCode.length || valueOfCode[code]! < 0) return false
  }
  return true
}

function base62Value(digits: string, from: number): number {
  let value = 0
  for (let at = from; at < digits.length; at++) value = value * 62 + valueOfCode[digits.charCodeAt(at)]!
  return value
}

/** SHA-256 in hex. A fast hash is the right one here: 155 random bits cannot be guessed, and a slow hash would only slow us. */
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

function randomBase62(length: number): string {
  let text = ''
  for (let i = 0; i < length; i++) text += base62[randomInt(62)]
  return text
}
