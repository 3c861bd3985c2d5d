import { open } from 'node:fs/promises'
import { join } from 'node:path'
import {
  isHistory,
  lsnOf,
  positionOf,
  positionsBetween,
  segmentBytes,
  segmentNamed,
  segmentOf,
  type WalFile,
} from '../../../archives/wal-archive.ts'
import type { Database } from '../../../db/database.ts'
import { StepFailure } from '../../../lib/step-failure.ts'
import type { Account } from '../../../postgres/account.ts'
import { syncDirectory } from '../../../postgres/data-directory.ts'
import type { UntrustedTree } from '../../../postgres/untrusted-files.ts'
import type { ArchivedWal, ArchiveWalOptions } from '../driver.ts'
import { withControl } from './control.ts'
import type { Control, Instance } from './instance.ts'

/* The WAL of an instance: stored while it runs, and replayed when it is restored. */

const slot = 'keyhook_wal'
const archivedHistoryBytesMax = 1024 * 1024

/** What was committed last when everything was archived, and a position after it. */
type LastCommit = { commit: string; position: string }

const lastCommits = new WeakMap<Instance, LastCommit>()

/** For a running instance, in a session of its own. */
export async function archiveWalOf(
  instance: Instance,
  cluster: UntrustedTree,
  { signal, ...options }: ArchiveWalOptions,
): Promise<ArchivedWal> {
  const earlier = { ...options, last: lastCommits.get(instance) }
  const { last, ...archived } = await withControl(instance.control(), { name: 'keyhook wal', signal }, (sql) =>
    archiveWal(sql, cluster, earlier),
  )
  lastCommits.set(instance, last)
  return archived
}

/** Finishes the current segment only if a transaction has committed since. What the slot loses beyond `max_slot_wal_keep_size` is a gap. */
async function archiveWal(
  sql: Database,
  cluster: UntrustedTree,
  { after, store, ...earlier }: Omit<ArchiveWalOptions, 'signal'> & { last: LastCommit | undefined },
): Promise<ArchivedWal & { last: LastCommit }> {
  const [seen] = await sql<[LastCommit & { now: Date; bytes: number }]>`
    select clock_timestamp() as now, pg_current_wal_insert_lsn()::text as position, pg_size_bytes(current_setting('wal_segment_size'))::int as bytes,
      coalesce((pg_last_committed_xact()).xid::text, '') || ' ' || pg_postmaster_start_time() as commit`
  if (seen.bytes !== segmentBytes) throw new Error(`WAL segments of ${seen.bytes} bytes are not archived`)
  const kept = await openSlot(sql, after)
  // Without this an idle database would write 16 MB every time.
  const last = earlier.last?.commit === seen.commit ? earlier.last : seen
  if (last === seen) await sql`select pg_switch_wal()`
  const [flushed] = await sql<[{ lsn: string; timeline: string }]>`
    select pg_current_wal_flush_lsn()::text as lsn, left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) as timeline`
  const end = segmentOf(flushed.lsn)
  const first = kept.isNew || after === null ? segmentOf(kept.lsn) : Math.max(segmentOf(kept.lsn), segmentOf(after))
  for (const position of positionsBetween(first, end)) {
    const name = segmentNamed(flushed.timeline, position)
    const content = await cluster.read(`pg_wal/${name}`, segmentBytes)
    if (content?.length !== segmentBytes) throw new Error(`the WAL segment ${name} is missing`)
    await store(name, content)
  }
  for (const { name } of await sql<{ name: string }[]>`
    select name from pg_ls_waldir() where name ~ '^[0-9A-F]{8}\\.history$'`) {
    const content = await cluster.read(`pg_wal/${name}`, archivedHistoryBytesMax)
    if (content !== undefined) await store(name, content)
  }
  const from = kept.isNew ? lsnOf(first) : null
  return { from, until: lsnOf(end), committed: last.position, at: seen.now, last }
}

/** Nothing is archived any more, and an instance that was archived earlier must not retain its WAL for that. */
export const forgetWal = (instance: Instance, signal: AbortSignal) =>
  withControl(
    instance.control(),
    { name: 'keyhook wal', signal },
    (sql) =>
      sql`select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = ${slot} and not active`,
  )

/** Moves on to what the caller has recorded, and no further: a crash before the record must not cost a segment. `isNew`: a part is lost. */
async function openSlot(sql: Database, after: string | null): Promise<{ lsn: string; isNew: boolean }> {
  const [found] = await sql<{ lsn: string | null; usable: boolean }[]>`
    select restart_lsn::text as lsn, restart_lsn is not null and wal_status <> 'lost' as usable
    from pg_replication_slots where slot_name = ${slot}`
  if (found?.usable && after !== null && segmentOf(found.lsn!) <= segmentOf(after)) {
    if (segmentOf(found.lsn!) < segmentOf(after))
      await sql`select pg_replication_slot_advance(${slot}, ${after}::pg_lsn)`
    return { lsn: found.lsn!, isNew: false }
  }
  if (found !== undefined) await sql`select pg_drop_replication_slot(${slot})`
  const [made] = await sql<[{ lsn: string }]>`
    select lsn::text from pg_create_physical_replication_slot(${slot}, true)`
  // After a move the instance goes on exactly where its old node stopped, and nothing is missing in between.
  return { lsn: made.lsn, isNew: after === null || segmentOf(made.lsn) > segmentOf(after) }
}

/** Puts the WAL into an unpacked cluster, and the file that makes PostgreSQL replay it and start a new timeline. */
export async function prepareRecovery(
  cluster: string,
  files: readonly WalFile[],
  { account, signal }: { account: Account | undefined; signal: AbortSignal },
): Promise<void> {
  for (const { name, read } of files) {
    signal.throwIfAborted()
    if (positionOf(name) === null && !isHistory(name)) throw new Error(`not a WAL file: ${name}`)
    await writeNew(join(cluster, 'pg_wal', name), await read(), account)
  }
  await syncDirectory(join(cluster, 'pg_wal'))
  await writeNew(join(cluster, 'recovery.signal'), Buffer.alloc(0), account)
  await syncDirectory(cluster)
}

/** The archive of the backup may have it already. */
async function writeNew(path: string, content: Buffer, account: Account | undefined): Promise<void> {
  const file = await open(path, 'wx', 0o600).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'EEXIST') return undefined
    throw error
  })
  if (file === undefined) return
  try {
    if (account) await file.chown(account.uid, account.gid)
    await file.writeFile(content)
    await file.sync()
  } finally {
    await file.close()
  }
}

const targetNotReached = 'recovery ended before configured recovery target was reached'

/** All WAL is in pg_wal already. `false` is a command that finds nothing elsewhere; PostgreSQL wants one. */
const everything = { restore_command: 'false', hot_standby: 'off' }

/** PostgreSQL stops before the first commit that is later. If there is none it refuses to start, and then the end of the WAL is that state. */
export async function recover<T>(
  start: (settings: Readonly<Record<string, string>>) => Promise<T>,
  to: Date | null,
): Promise<T> {
  if (to === null) return start(everything)
  // On the command line PostgreSQL knows no name of a time zone, not even Z.
  const time = to.toISOString().replace('Z', '+00')
  const target = { recovery_target_time: time, recovery_target_action: 'promote' }
  try {
    return await start({ ...everything, ...target })
  } catch (error) {
    if (!String(error).includes(targetNotReached)) throw error
    return start(everything)
  }
}

/** A history is a line for each timeline. */
const historyBytesMax = 64 * 1024

/** An unreadable or foreign segment ends the WAL for PostgreSQL. The history says where: "before …" is the time that was asked for. */
export async function checkReplayed(control: Control, committed: string, signal: AbortSignal): Promise<void> {
  const [ended] = await withControl(
    control,
    { name: 'keyhook recovery', signal },
    (sql) => sql<{ lsn: string; isComplete: boolean }[]>`
      select found.line[1] as lsn, found.line[1]::pg_lsn >= ${committed}::pg_lsn or found.line[2] like 'before %' as "isComplete"
      from (
        select regexp_match(pg_read_file('pg_wal/' || max(name), 0, ${historyBytesMax}), '\t([0-9A-F/]+)\t([^\n]*)\n*$') as line
        from pg_ls_waldir() where name ~ '^[0-9A-F]{8}\\.history$'
      ) found`,
  )
  if (ended?.isComplete) return
  const cause = new Error(`the replay ended at ${ended?.lsn ?? 'an unknown position'}, and ${committed} was stored`)
  throw new StepFailure(
    'The stored write-ahead log cannot be read to its end: a part of it is damaged, or belongs to another database.',
    { permanent: true, cause },
  )
}
