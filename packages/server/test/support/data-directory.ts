import { realpath, rm } from 'node:fs/promises'
import { join } from 'node:path'

/** Removes a data directory, and what of it root had to put where PostgreSQL's own user can reach it. */
export async function removeDataDirectory(dataDir: string): Promise<void> {
  for (const name of ['postgres', 'databases']) {
    const place = await realpath(join(dataDir, name)).catch(() => undefined)
    if (place !== undefined) await rm(place, { recursive: true, force: true })
  }
  await rm(dataDir, { recursive: true, force: true })
}
