import { type FileHandle, open, readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'

const chunkBytes = 256 * 1024

/** Contents that the next start makes anew, or that must not travel (PostgreSQL manual, "Backing Up The Data Directory"). */
const emptied = new Set([
  'pg_dynshmem',
  'pg_notify',
  'pg_replslot',
  'pg_serial',
  'pg_snapshots',
  'pg_stat_tmp',
  'pg_subtrans',
  // Taken one by one after the rest, once it is known which of it is needed.
  'pg_wal',
])
const leftOut = /^(postmaster\.(pid|opts)|\.s\.PGSQL\..*|backup_label(\.old)?|tablespace_map(\.old)?|backup_manifest)$/
const leftOutAnywhere = /^(pgsql_tmp.*|pg_internal\.init.*)$/

export const controlFile = 'global/pg_control'

export type ClusterFiles = { directories: string[]; files: string[]; bytes: number }

/** What of a cluster's directory belongs into a backup. Files may come and go while we look: WAL replay makes that good. */
export async function listCluster(cluster: string): Promise<ClusterFiles> {
  const found: ClusterFiles = { directories: [], files: [], bytes: 0 }
  async function walk(relative: string): Promise<void> {
    for (const entry of await readdir(join(cluster, relative), { withFileTypes: true })) {
      const path = relative === '' ? entry.name : `${relative}/${entry.name}`
      if (leftOutAnywhere.test(entry.name) || (relative === '' && leftOut.test(entry.name))) continue
      if (entry.isDirectory()) {
        found.directories.push(path)
        if (!emptied.has(path)) await walk(path)
      } else if (entry.isFile() && path !== controlFile) {
        found.files.push(path)
        found.bytes += await sizeOf(join(cluster, path))
      } else if (entry.isSymbolicLink()) {
        // Only a superuser can make a tablespace, and no customer is one.
        throw new Error(`${path} lies outside the data directory, which a backup does not follow`)
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

/** Undefined when the file is gone, as that of a dropped table. */
export async function openSource(path: string): Promise<{ handle: FileHandle; size: number } | undefined> {
  const handle = await open(path, 'r').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined
    throw error
  })
  if (handle === undefined) return undefined
  return { handle, size: (await handle.stat()).size }
}

/**
 * Exactly `size` bytes. A file that was truncated meanwhile is filled up with zeros, and one that grew is cut: the WAL
 * of the backup holds what is needed to put either right.
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

/** Read until two readings agree: PostgreSQL writes it in place, and half an old one is worth nothing. */
export async function readControlFile(cluster: string): Promise<Buffer> {
  const path = join(cluster, controlFile)
  let last = await readFile(path)
  for (;;) {
    const next = await readFile(path)
    if (isDeepStrictEqual(last, next)) return next
    last = next
  }
}
