import { lsnOf, positionsBetween, segmentBytes, segmentNamed, segmentOf } from '../../../archives/wal-archive.ts'
import type { Database } from '../../../db/database.ts'
import type { UntrustedTree } from '../../../postgres/untrusted-files.ts'
import type { ArchivedWal } from '../driver.ts'
import type { ArchiveWalOptions } from '../local-instances.ts'
import { openControl } from './control.ts'
import type { Instance } from './instance.ts'

const slot = 'keyhook_wal'
const historyBytesMax = 1024 * 1024

/** What was committed last when everything was archived, and a position after it. */
type LastCommit = { commit: string; position: string }

const lastCommits = new WeakMap<Instance, LastCommit>()

/** For a running instance, in a session of its own. */
export async function archiveWalOf(
  instance: Instance,
  cluster: UntrustedTree,
  { signal, ...options }: ArchiveWalOptions,
): Promise<ArchivedWal> {
  const { sql, close } = await openControl(instance.control(), { name: 'keyhook wal', signal })
  try {
    const { last, ...archived } = await archiveWal(sql, cluster, { ...options, last: lastCommits.get(instance) })
    lastCommits.set(instance, last)
    return archived
  } finally {
    await close()
  }
}

/**
 * Stores every finished WAL segment, and finishes the current one if a transaction has committed since the last time. A
 * replication slot keeps segments until they are stored, up to `max_slot_wal_keep_size`; what is lost beyond that is a gap.
 */
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
    const content = await cluster.read(`pg_wal/${name}`, historyBytesMax)
    if (content !== undefined) await store(name, content)
  }
  const { commit, position: committed } = last
  const from = kept.isNew ? lsnOf(first) : null
  return { from, until: lsnOf(end), committed, at: seen.now, last: { commit, position: committed } }
}

/** Nothing is archived any more, and an instance that was archived earlier must not retain its WAL for that. */
export async function forgetWal(instance: Instance, signal: AbortSignal): Promise<void> {
  const { sql, close } = await openControl(instance.control(), { name: 'keyhook wal', signal })
  try {
    await sql`select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = ${slot} and not active`
  } finally {
    await close()
  }
}

/**
 * The slot, and the position from which on it has kept everything. It moves on to what the caller has recorded as archived, and
 * no further: a crash before the record must not cost a segment. `isNew`: a part before it is lost.
 */
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
