import { type FileHandle, open, readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'

const chunkBytes = 256 * 1024

/** Contents that the next start creates, or that must not be copied (PostgreSQL manual, "Backing Up The Data Directory"). */
const emptied = new Set([
  'pg_dynshmem',
  'pg_notify',
  'pg_replslot',
  'pg_serial',
  'pg_snapshots',
  'pg_stat_tmp',
  'pg_subtrans',
  // Copied at the end, when it is known which segments are needed.
  'pg_wal',
])
const excluded = /^(postmaster\.(pid|opts)|\.s\.PGSQL\..*|backup_label(\.old)?|tablespace_map(\.old)?|backup_manifest)$/
const excludedAnywhere = /^(pgsql_tmp.*|pg_internal\.init.*)$/

export const controlFile = 'global/pg_control'

export type ClusterFiles = { directories: string[]; files: string[]; bytes: number }

/** The files that belong in a backup. Files may appear and disappear meanwhile, which WAL replay corrects. */
export async function listCluster(cluster: string): Promise<ClusterFiles> {
  const found: ClusterFiles = { directories: [], files: [], bytes: 0 }
  async function walk(relative: string): Promise<void> {
    for (const entry of await readdir(join(cluster, relative), { withFileTypes: true })) {
      const path = relative === '' ? entry.name : `${relative}/${entry.name}`
      if (excludedAnywhere.test(entry.name) || (relative === '' && excluded.test(entry.name))) continue
      if (entry.isDirectory()) {
        found.directories.push(path)
        if (!emptied.has(path)) await walk(path)
      } else if (entry.isFile() && path !== controlFile) {
        found.files.push(path)
        found.bytes += await sizeOf(join(cluster, path))
      } else if (entry.isSymbolicLink()) {
        // Only a superuser can create a tablespace, and customers are not superusers.
        throw new Error(`${path} is a link to outside of the data directory, which a backup does not follow`)
      }
    }
  }
  await walk('')
  found.directories.push('pg_wal/archive_status', 'pg_wal/summaries')
  return found
}

const sizeOf = (path: string): Promise<number> =>
  stat(path).then(
    ({ size }) => size,
    () => 0,
  )

/** Undefined if the file does not exist any more, for example of a dropped table. */
export async function openSource(path: string): Promise<{ handle: FileHandle; size: number } | undefined> {
  const handle = await open(path, 'r').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined
    throw error
  })
  if (handle === undefined) return undefined
  return { handle, size: (await handle.stat()).size }
}

/**
 * Exactly `size` bytes. A file that was truncated meanwhile is filled with zeros, and one that grew is cut: replaying the
 * WAL of the backup corrects both.
 */
export async function* readExactly(handle: FileHandle, size: number): AsyncGenerator<Buffer> {
  let done = 0
  while (done < size) {
    const buffer = Buffer.allocUnsafe(Math.min(chunkBytes, size - done))
    const { bytesRead } = await handle.read(buffer, 0, buffer.length, done)
    if (bytesRead === 0) buffer.fill(0)
    const part = bytesRead === 0 ? buffer : buffer.subarray(0, bytesRead)
    done += part.length
    yield part
  }
}

/** Reads until two reads are equal: PostgreSQL writes the file in place, so one read may see half of a write. */
export async function readControlFile(cluster: string): Promise<Buffer> {
  const path = join(cluster, controlFile)
  let last = await readFile(path)
  for (;;) {
    const next = await readFile(path)
    if (isDeepStrictEqual(last, next)) return next
    last = next
  }
}
