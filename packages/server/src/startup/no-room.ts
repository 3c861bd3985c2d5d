import { statfs } from 'node:fs/promises'
import { pathsFromRoot } from '../embedded/permissions.ts'

/** What a disk has left. `files` is null where it makes them as they are needed, or where nobody says. */
type Room = { bytes: number; files: number | null }

/** By a new installation, with the template of customers' databases. */
const megabytesWanted = 200
const filesWanted = 3_000

/** Why nothing more can be written to the disk of a path, and what to do about it. */
export async function noRoomAt(path: string): Promise<string> {
  for (const step of pathsFromRoot(path).reverse()) {
    const found = await statfs(step).catch(() => null)
    if (found === null) continue
    return noRoom({ bytes: found.bavail * found.bsize, files: found.files === 0 ? null : found.ffree })
  }
  return noRoom({ bytes: 0, files: null })
}

/** Judged afterwards, when what was half made has been removed: of what ran out, something may be there again. */
export function noRoom({ bytes, files }: Room): string {
  const lacksFiles = files !== null && files < filesWanted
  const lacksBytes = bytes < megabytesWanted * 1_000_000
  if (files === 0 || (lacksFiles && !lacksBytes))
    return `too few inodes are left on the disk. Remove files (a new installation takes ${filesWanted}) and start again`
  const wanted = `${megabytesWanted} MB${lacksFiles ? ` and ${filesWanted} inodes` : ''}`
  return `there is no room left on the disk. Make some (a new installation takes ${wanted}) and start again`
}
