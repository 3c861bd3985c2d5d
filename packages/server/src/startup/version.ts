import { readFileSync } from 'node:fs'

/** The version of Keyhook, from its package.json. */
export const version = (): string => {
  const manifest = readFileSync(new URL('../../package.json', import.meta.url), 'utf8')
  return (JSON.parse(manifest) as { version: string }).version
}
