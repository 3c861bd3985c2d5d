import type { PlatformJob } from '../../domain/platform-job.ts'

export const schema = 'keyhook_jobs'
/** Jobs that any node may do. */
export const anyNode = 'any-node'
export const invoicing = 'invoicing'
/** Jobs on files, for the one node that has them. */
export const nodeQueue = (node: string): string => `node-${node}`
/** Where pg-boss moves a job after its last attempt. Its failure is settled from there. */
export const deadLetter = (queue: string): string => `${queue}-dead-letter`

const seconds = { hour: 3_600, day: 86_400 }

/** The minimum of pg-boss, and only the last resort: the nodes themselves detect a dead node after five seconds. */
export const heartbeatSeconds = 10

/** How often a job may fail. Attempts that ended with their process do not count, or a few restarts would fail the job. */
export const failuresMax = 3
const attempts = { retryLimit: 20, retryDelay: 1, retryBackoff: true, retryDelayMax: 5 }
/** For what we have promised: retried until it succeeds, at least once a minute. */
export const always = { retryLimit: 1_000_000, retryDelay: 1, retryBackoff: true, retryDelayMax: 60 }

/** About half a minute: another database may be deleted, or a node that restarts may come back. */
const searching = { retryLimit: 8, retryDelay: 1, retryBackoff: true, retryDelayMax: 5 }

/**
 * The order in a node's queue. Backups and restores take as long as a database is large, and a schedule starts many at
 * once: creating and removing databases does not wait for them. A restore has a person who waits for it.
 */
export const priorities = { backup: 0, restore: 1, short: 2 } as const

const priorityOf = (kind: PlatformJob['kind']): number =>
  kind === 'backup.take'
    ? priorities.backup
    : kind === 'restore.run' || kind === 'database.leave' || kind === 'database.arrive'
      ? priorities.restore
      : priorities.short

const isLong = (kind: PlatformJob['kind']): boolean => priorityOf(kind) < priorities.short

const isRemoval = (kind: PlatformJob['kind']): boolean =>
  kind === 'database.remove' || kind === 'database.discard' || kind === 'backup.remove'

/** Removals, and what a move has begun, are retried for ever. */
const isPromised = (kind: PlatformJob['kind']): boolean =>
  isRemoval(kind) || kind === 'database.arrive' || kind === 'database.stay'

/** Placing is limited by `searching`. */
export const hasFailureLimit = (kind: PlatformJob['kind']): boolean => !isPromised(kind) && kind !== 'database.place'

export function policyOf({ kind, orgId }: PlatformJob) {
  // pg-boss deletes a job that has waited for so long. Some are promised, and a node may be down for months.
  const retentionSeconds = (isPromised(kind) ? 3_650 : 30) * seconds.day
  const common = { heartbeatSeconds, expireInSeconds: seconds.day - 1, retentionSeconds }
  const retries = isPromised(kind) ? always : hasFailureLimit(kind) ? attempts : searching
  // Limits how many long jobs of one organization a node runs at a time. Short jobs are not limited.
  const group = isLong(kind) ? { group: { id: orgId } } : {}
  return { ...common, ...retries, ...group, deleteAfterSeconds: seconds.hour, priority: priorityOf(kind) }
}
