import { hash, randomBytes, randomInt } from 'node:crypto'

/** Characters without a special meaning in shells, URLs, headers and connection strings. */
export const base62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

/** 5.95 random bits per character. */
export function randomBase62(length: number): string {
  let text = ''
  for (let i = 0; i < length; i++) text += base62[randomInt(base62.length)]
  return text
}

/** The secret of a cookie or a link. Only its hash is stored. */
export const newSecret = () => randomBytes(32).toString('base64url')
export const secretHash = (secret: string): Buffer => hash('sha256', secret, 'buffer')
