import { realpath, rm } from 'node:fs/promises'
import { join } from 'node:path'

/** Removes a data directory, and its clusters where root had to place them elsewhere. */
export async function removeDataDirectory(dataDir: string): Promise<void> {
  for (const name of ['postgres', 'databases']) {
    const place = await realpath(join(dataDir, name)).catch(() => undefined)
    if (place !== undefined) await rm(place, { recursive: true, force: true })
  }
  await rm(dataDir, { recursive: true, force: true })
}
