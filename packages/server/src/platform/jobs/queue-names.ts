import type { PlatformJob } from '../../domain/platform-job.ts'

export const schema = 'keyhook_jobs'
/** Work that any node may take. */
export const anyNode = 'any-node'
export const invoicing = 'invoicing'
/** Work on files, for the one node that has them. */
export const nodeQueue = (node: string): string => `node-${node}`
/** Where a job goes after its last attempt, however that ended: its outcome is settled from there. */
export const givenUp = (queue: string): string => `${queue}-given-up`

const seconds = { hour: 3_600, day: 86_400 }

/** pg-boss's least, and only the last resort: the nodes themselves notice sooner whose signs of life are missing. */
export const heartbeatSeconds = 10

/** How often it may fail by itself. Attempts that the end of a process cut off do not count, or a few restarts would fail it. */
export const failuresMax = 3
const attempts = { retryLimit: 20, retryDelay: 1, retryBackoff: true, retryDelayMax: 5 }
/** Asked for and promised: tried until it is done, once a minute in the end. */
export const always = { retryLimit: 1_000_000, retryDelay: 1, retryBackoff: true, retryDelayMax: 60 }

/** Room may come free, and a node that is being restarted comes back: half a minute of patience. */
const searching = { retryLimit: 8, retryDelay: 1, retryBackoff: true, retryDelayMax: 5 }

/**
 * Who goes first in a node's queue. Backups and restores take as long as a database is large, and a schedule asks for
 * many at once: whoever makes or removes a database does not wait for them. For a restore somebody waits.
 */
export const priorities = { backup: 0, restore: 1, short: 2 } as const

const priorityOf = (kind: PlatformJob['kind']): number =>
  kind === 'backup.take' ? priorities.backup : kind === 'restore.run' ? priorities.restore : priorities.short

/** Work that takes as long as a database is large, or as its sessions let it. */
const takesLong = (kind: PlatformJob['kind']): boolean => priorityOf(kind) < priorities.short

const removesSomething = (kind: PlatformJob['kind']): boolean =>
  kind === 'database.remove' || kind === 'database.discard' || kind === 'backup.remove'

/** Those that are not tried for ever, nor until room comes free. */
export const mayFail = (kind: PlatformJob['kind']): boolean => !removesSomething(kind) && kind !== 'database.place'

export function policyOf({ kind, orgId }: PlatformJob) {
  const removes = removesSomething(kind)
  // A job that has waited for so long is deleted. Removals are promised, and a node may be away for a very long time.
  const retentionSeconds = (removes ? 3_650 : 30) * seconds.day
  const common = { heartbeatSeconds, expireInSeconds: seconds.day - 1, retentionSeconds }
  const patience = removes ? always : mayFail(kind) ? attempts : searching
  // Of one organization's long work a node does so much at a time; short work is not counted.
  const group = takesLong(kind) ? { group: { id: orgId } } : {}
  return { ...common, ...patience, ...group, deleteAfterSeconds: seconds.hour, priority: priorityOf(kind) }
}
