import { readdir, realpath, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { nameFrom, readSecret } from './data-directory.ts'
import { clustersHome } from './system-home.ts'

/** An initdb that was just ended may still write for a moment. */
const remove = (path: string): Promise<void> => rm(path, { recursive: true, force: true, maxRetries: 10 })

/** Removes a data directory, and its clusters where root had to place them elsewhere. */
export async function removeDataDirectory(dataDir: string): Promise<void> {
  for (const name of ['postgres', 'databases']) {
    const place = await realpath(join(dataDir, name)).catch(() => undefined)
    if (place !== undefined) await remove(place)
  }
  // What an interrupted start left has no link yet: only the name tells whose it is.
  const id = await readSecret(join(dataDir, 'id'))
  const ours = id === undefined ? [] : ['cluster', 'databases'].map((purpose) => nameFrom(id, purpose))
  for (const name of await readdir(clustersHome).catch(() => [])) {
    if (ours.some((one) => name === one || name.startsWith(`${one}.`))) await remove(join(clustersHome, name))
  }
  await remove(dataDir)
}
