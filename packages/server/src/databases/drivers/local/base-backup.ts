import { type FileHandle, mkdir, open } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { type ArchiveInfo, type ArchiveWriter, readArchive } from '../../../archives/archive.ts'
import type { Manifest } from '../../../archives/archive-store.ts'
import { type Database, isStatementTimeout } from '../../../db/database.ts'
import { traceStep } from '../../../jobs/worker.ts'
import { StepFailure, tooLarge } from '../../../lib/step-failure.ts'
import { syncCluster } from '../../../postgres/cluster.ts'
import { giveClusterTo } from '../../../postgres/ownership.ts'
import type { RunAs } from '../../../postgres/start-program.ts'
import { NotAClusterFile, type UntrustedTree } from '../../../postgres/untrusted-files.ts'
import type { Progress } from '../driver.ts'
import type { Home } from './home.ts'

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

const controlFile = 'global/pg_control'

type ClusterFiles = { directories: string[]; files: string[]; bytes: number }

function checkSize(path: string, bytes: number): void {
  if (bytes > relationBytesMax && /^(base|global)\//.test(path))
    throw new NotAClusterFile(`${path} has more than 1 GiB, which no file of PostgreSQL has there`)
}

/** Links, pipes and sockets, except the server's own socket, fail the backup wherever they are: nobody could restore them. */
async function listCluster(cluster: UntrustedTree, socket: string): Promise<ClusterFiles> {
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

/** A file that was truncated meanwhile is filled with zeros, and one that grew is cut: replaying the WAL of the backup corrects both. */
async function* readExactly(handle: FileHandle, size: number): AsyncGenerator<Buffer> {
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
async function readControlFile(cluster: UntrustedTree): Promise<Buffer> {
  let last: Buffer | undefined
  for (let reads = 0; reads < controlReadsMax; reads++) {
    const next = await cluster.read(controlFile, controlBytesMax)
    if (next === undefined) throw new Error(`${controlFile} is missing`)
    if (last !== undefined && isDeepStrictEqual(last, next)) return next
    last = next
  }
  throw new Error(`${controlFile} changes all the time`)
}

export type BaseBackupOptions = {
  id: string
  cluster: UntrustedTree
  /** The name of the server's own socket, which may be among its files. */
  socket: string
  /** A pool of one connection: the backup ends with its session. */
  sql: Database
  /** Of all files, with the WAL of the backup. */
  bytesMax: number
  onProgress: Progress
  signal: AbortSignal
}

/**
 * Writes a physical base backup by PostgreSQL's low-level API while clients go on writing.
 *
 * A temporary slot of the same session keeps every WAL segment from the start on until we have copied it. If the session
 * ends, PostgreSQL drops the slot and ends the backup by itself.
 */
export async function baseBackup(archive: ArchiveWriter, options: BaseBackupOptions): Promise<ArchiveInfo> {
  const { cluster, id } = options
  const session = await options.sql.reserve()
  try {
    // A name for each session: that of an aborted backup may still end, and its slot with it.
    await session`select pg_create_physical_replication_slot('keyhook_backup_' || pg_backend_pid(), true, true)`
    traceStep('backup.starting', id)
    // fast: an immediate checkpoint. A spread one would make every backup wait for minutes.
    const [start] = await session<[{ lsn: string; segment: string; version: string }]>`
      select lsn::text, pg_walfile_name(lsn) as segment, current_setting('server_version') as version
      from pg_backup_start('keyhook', fast => true) as lsn`
    traceStep('backup.copying', id)
    const listed = await listCluster(cluster, options.socket)
    if (listed.bytes > options.bytesMax) throw tooLarge(options.bytesMax)
    const copy = createCopy(archive, { ...options, bytesTotal: listed.bytes })
    for (const path of listed.directories) await archive.directory(path)
    for (const path of listed.files) await copy.file(path)
    await copy.content(controlFile, await readControlFile(cluster))
    traceStep('backup.stopping', id)
    // We copy the WAL ourselves, so there is no archiver to wait for. Stopping also ends the current segment.
    const [stop] = await session<[Stop]>`
      select lsn::text, pg_walfile_name(lsn) as segment, labelfile, spcmapfile, clock_timestamp()::text as at
      from pg_backup_stop(wait_for_archive => false)`
    if (stop.spcmapfile.trim() !== '') throw new Error('a tablespace outside the data directory cannot be backed up')
    await copy.content('backup_label', Buffer.from(stop.labelfile))
    traceStep('backup.copying_wal', id)
    const segments = await session<{ name: string; bytes: number }[]>`
      select name, size::float8 as bytes from pg_ls_waldir()
      where (name ~ '^[0-9A-F]{24}$' and name between ${start.segment} and ${stop.segment}) or name ~ '\\.history$'
      order by name`
    const names = segments.map((row) => row.name)
    if (!names.includes(start.segment) || !names.includes(stop.segment)) throw new Error('WAL of the backup is missing')
    copy.expect(segments.reduce((sum, { bytes }) => sum + bytes, 0))
    for (const name of names) await copy.file(`pg_wal/${name}`, { required: true })
    const position = { start_lsn: start.lsn, stop_lsn: stop.lsn, stopped_at: stop.at }
    return { database_id: id, postgres_version: start.version, ...position }
  } finally {
    session.release()
  }
}

const noCheckpoint =
  'The database did not finish a checkpoint in time, which a backup starts with. One of its sessions may block it.'

/** What the owner can do something about. */
export function explainBackupError(error: unknown): unknown {
  const how = { cause: error, permanent: true }
  if (error instanceof NotAClusterFile)
    return new StepFailure(`The data directory has something that PostgreSQL did not make: ${error.message}.`, how)
  return isStatementTimeout(error) ? new StepFailure(noCheckpoint, how) : error
}

type Stop = { lsn: string; segment: string; labelfile: string; spcmapfile: string; at: string }

/** Copies files into the archive and reports the progress. */
function createCopy(archive: ArchiveWriter, deps: BaseBackupOptions & { bytesTotal: number }) {
  let bytesDone = 0
  let { bytesTotal } = deps

  async function* counted(content: AsyncIterable<Buffer> | Iterable<Buffer>): AsyncGenerator<Buffer> {
    for await (const part of content) {
      deps.signal.throwIfAborted()
      bytesDone += part.length
      if (bytesDone > deps.bytesMax) throw tooLarge(deps.bytesMax)
      // Files may have grown since they were counted.
      bytesTotal = Math.max(bytesTotal, bytesDone)
      deps.onProgress({ bytesDone, bytesTotal })
      yield part
    }
  }

  return {
    /** Adds to the total that was counted at first. */
    expect(bytes: number): void {
      bytesTotal = Math.max(bytesTotal, bytesDone) + bytes
    },
    async file(path: string, { required = false } = {}): Promise<void> {
      const source = await deps.cluster.open(path)
      if (source === undefined) {
        if (required) throw new Error(`${path} is missing`)
        return
      }
      try {
        const { size } = await source.stat()
        checkSize(path, size)
        await archive.file(path, size, counted(readExactly(source, size)))
      } finally {
        await source.close()
      }
    },
    content: (path: string, content: Buffer): Promise<void> => archive.file(path, content.length, counted([content])),
  }
}

/** Unpacks an archive into a cluster directory: verified, synced to disk, and owned by the account that will run it. */
export async function unpack(
  { binaries }: Pick<Home, 'binaries'>,
  runAs: RunAs,
  archive: AsyncIterable<Uint8Array>,
  into: string,
  options: { bytesMax: number; onProgress: (bytesDone: number) => void; signal: AbortSignal },
): Promise<Manifest> {
  let bytesDone = 0
  const receiver = {
    async directory(path: string) {
      await mkdir(join(into, path), { recursive: true, mode: 0o700 })
    },
    async file(path: string, body: AsyncIterable<Buffer>) {
      await mkdir(dirname(join(into, path)), { recursive: true, mode: 0o700 })
      const file = await open(join(into, path), 'wx', 0o600)
      try {
        for await (const part of body) {
          options.signal.throwIfAborted()
          await file.writeFile(part)
          bytesDone += part.length
          options.onProgress(bytesDone)
        }
      } finally {
        await file.close()
      }
    },
  }
  const manifest = await readArchive(archive, receiver, options)
  if (runAs.account) await giveClusterTo(runAs.account, into)
  await syncCluster(into, { binaries, ...runAs })
  return manifest
}
