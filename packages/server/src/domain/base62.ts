import { randomInt } from 'node:crypto'

/** Characters that no shell, URL, header or connection string gives a meaning to. */
export const base62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

/** Not quite six random bits a character. */
export function randomBase62(length: number): string {
  let text = ''
  for (let i = 0; i < length; i++) text += base62[randomInt(base62.length)]
  return text
}
