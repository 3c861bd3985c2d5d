import { createHash } from 'node:crypto'
import { join } from 'node:path'
import type { Database } from '../../db/database.ts'
import { encodeManifest, type Manifest, manifestPath } from '../archive/manifest.ts'
import { encodeHeader, endOfArchive, paddingAfter } from '../archive/tar.ts'
import type { Progress } from '../driver.ts'
import { step } from '../steps/step.ts'
import { controlFile, listCluster, openSource, readControlFile, readExactly } from './cluster-files.ts'

export type BaseBackupOptions = {
  id: string
  cluster: string
  /** A connection of its own: the backup lives and dies with one session. */
  sql: Database
  onProgress: Progress
  signal: AbortSignal
}

/**
 * A physical base backup by PostgreSQL's low-level API, as the bytes of a tar archive, while clients go on writing.
 *
 * A temporary slot of the same session keeps every WAL segment from before the start until we have copied it. If the
 * session ends for whatever reason, PostgreSQL drops the slot and ends the backup by itself; nothing stays behind.
 */
export async function* baseBackup(options: BaseBackupOptions): AsyncGenerator<Buffer> {
  const { cluster, id, signal } = options
  const session = await options.sql.reserve()
  try {
    await session`select pg_create_physical_replication_slot('keyhook_backup', true, true)`
    step('backup.starting', id)
    // fast: an immediate checkpoint. A spread one would make every backup wait for minutes.
    const [start] = await session<[{ lsn: string; segment: string; version: string }]>`
      select lsn::text, pg_walfile_name(lsn) as segment, current_setting('server_version') as version
      from pg_backup_start('keyhook', fast => true) as lsn`
    step('backup.copying', id)
    const listed = await listCluster(cluster)
    const tar = createTarWriter({ bytesTotal: listed.bytes, onProgress: options.onProgress, signal })
    for (const path of listed.directories) yield encodeHeader({ path, kind: 'directory', size: 0 })
    for (const path of listed.files) yield* tar.file(path, join(cluster, path))
    yield* tar.content(controlFile, await readControlFile(cluster))
    step('backup.stopping', id)
    // We copy the WAL ourselves, so there is no archiver to wait for. Stopping also ends the segment it is in.
    const [stop] = await session<[{ lsn: string; segment: string; labelfile: string; spcmapfile: string }]>`
      select lsn::text, pg_walfile_name(lsn) as segment, labelfile, spcmapfile
      from pg_backup_stop(wait_for_archive => false)`
    if (stop.spcmapfile.trim() !== '') throw new Error('a tablespace outside the data directory cannot be backed up')
    yield* tar.content('backup_label', Buffer.from(stop.labelfile))
    step('backup.copying_wal', id)
    const segments = await session<{ name: string; bytes: number }[]>`
      select name, size::float8 as bytes from pg_ls_waldir()
      where (name ~ '^[0-9A-F]{24}$' and name between ${start.segment} and ${stop.segment}) or name ~ '\\.history$'
      order by name`
    const names = segments.map((row) => row.name)
    if (!names.includes(start.segment) || !names.includes(stop.segment)) throw new Error('WAL of the backup is gone')
    tar.expect(segments.reduce((sum, { bytes }) => sum + bytes, 0))
    for (const name of names) yield* tar.file(`pg_wal/${name}`, join(cluster, 'pg_wal', name), { required: true })
    yield* tar.finish({ database_id: id, postgres_version: start.version, start_lsn: start.lsn, stop_lsn: stop.lsn })
  } finally {
    session.release()
  }
}

function createTarWriter(deps: { bytesTotal: number; onProgress: Progress; signal: AbortSignal }) {
  const files: Manifest['files'] = []
  let bytesDone = 0
  let { bytesTotal } = deps

  async function* body(path: string, size: number, content: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    const hash = createHash('sha256')
    yield encodeHeader({ path, kind: 'file', size })
    for await (const part of content) {
      deps.signal.throwIfAborted()
      hash.update(part)
      bytesDone += part.length
      // Files may have grown since they were counted.
      bytesTotal = Math.max(bytesTotal, bytesDone)
      deps.onProgress({ bytesDone, bytesTotal })
      yield part
    }
    yield paddingAfter(size)
    files.push({ path, bytes: size, sha256: hash.digest('hex') })
  }

  return {
    /** So much more than what was counted at first. */
    expect(bytes: number): void {
      bytesTotal = Math.max(bytesTotal, bytesDone) + bytes
    },
    async *file(path: string, from: string, { required = false } = {}): AsyncGenerator<Buffer> {
      const source = await openSource(from)
      if (source === undefined) {
        if (required) throw new Error(`${path} is gone`)
        return
      }
      try {
        yield* body(path, source.size, readExactly(source.handle, source.size))
      } finally {
        await source.handle.close()
      }
    },
    async *content(path: string, content: Buffer): AsyncGenerator<Buffer> {
      yield* body(path, content.length, one(content))
    },
    async *finish(about: Omit<Manifest, 'format' | 'files'>): AsyncGenerator<Buffer> {
      const manifest = encodeManifest({ format: 1, ...about, files })
      yield encodeHeader({ path: manifestPath, kind: 'file', size: manifest.length })
      yield manifest
      yield paddingAfter(manifest.length)
      yield endOfArchive()
    },
  }
}

async function* one(content: Buffer): AsyncGenerator<Buffer> {
  yield content
}
