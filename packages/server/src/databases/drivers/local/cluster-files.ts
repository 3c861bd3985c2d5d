import type { FileHandle } from 'node:fs/promises'
import { isDeepStrictEqual } from 'node:util'
import { NotAClusterFile, type UntrustedTree } from '../../../postgres/untrusted-files.ts'

const chunkBytes = 256 * 1024
/** PostgreSQL's is 8 KB. */
const controlBytesMax = 64 * 1024
const controlReadsMax = 1_000
/** PostgreSQL splits tables into files of this size. A larger one is none of its own, and may be empty for 15 TB. */
const relationBytesMax = 1024 ** 3

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

export function checkSize(path: string, bytes: number): void {
  if (bytes > relationBytesMax && /^(base|global)\//.test(path))
    throw new NotAClusterFile(`${path} has more than 1 GiB, which no file of PostgreSQL has there`)
}

/**
 * The files that belong in a backup. Files may appear and disappear meanwhile, which WAL replay corrects. Links, pipes and sockets
 * are not PostgreSQL's, except the server's own socket, and wherever they are they fail the backup: nobody could restore them.
 */
export async function listCluster(cluster: UntrustedTree, socket: string): Promise<ClusterFiles> {
  const found: ClusterFiles = { directories: [], files: [], bytes: 0 }
  async function walk(relative: string, isCopied: boolean): Promise<void> {
    for (const entry of await entriesOf(cluster, relative)) {
      const path = relative === '' ? entry.name : `${relative}/${entry.name}`
      const isExcluded = excludedAnywhere.test(entry.name) || (relative === '' && excluded.test(entry.name))
      const belongs = isCopied && !isExcluded
      if (entry.isDirectory()) {
        if (belongs) found.directories.push(path)
        await walk(path, belongs && !emptied.has(path))
      } else if (!entry.isFile()) {
        if (path === socket && entry.isSocket()) continue
        throw new NotAClusterFile(`${path} is a link, a pipe or a socket, and not a file of PostgreSQL`)
      } else if (belongs && path !== controlFile) {
        const bytes = await cluster.sizeOf(path)
        checkSize(path, bytes)
        found.files.push(path)
        found.bytes += bytes
      }
    }
  }
  await walk('', true)
  found.directories.push('pg_wal/archive_status', 'pg_wal/summaries')
  return found
}

/** A directory may disappear meanwhile, such as that of a dropped database. */
const entriesOf = (cluster: UntrustedTree, directory: string) =>
  cluster.entries(directory).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT' && directory !== '') return []
    throw error
  })

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
export async function readControlFile(cluster: UntrustedTree): Promise<Buffer> {
  let last: Buffer | undefined
  for (let reads = 0; reads < controlReadsMax; reads++) {
    const next = await cluster.read(controlFile, controlBytesMax)
    if (next === undefined) throw new Error(`${controlFile} is missing`)
    if (last !== undefined && isDeepStrictEqual(last, next)) return next
    last = next
  }
  throw new Error(`${controlFile} changes all the time`)
}
