import type { Executor } from '../db/database.ts'
import { inMegabytes } from '../domain/storage.ts'
import { Fault } from '../kernel/faults.ts'
import type { OrgId } from '../kernel/ids.ts'
import { archivedBytes } from '../store/platform/wal-archives.ts'
import { StepFailure } from './driver.ts'

/** Why the organization may store nothing more, for its members; null if it may. `moreBytes`: what is about to be kept. */
export async function archiveProblem(
  db: Executor,
  orgId: OrgId,
  bytesMax: number,
  moreBytes = 0,
): Promise<string | null> {
  const bytes = await archivedBytes(db, orgId)
  if (bytes + moreBytes <= bytesMax && bytes < bytesMax) return null
  const what = moreBytes === 0 ? 'take' : `with this one would take`
  return `The backups and logs of this organization ${what} ${inMegabytes(bytes + moreBytes)}, and may take ${inMegabytes(bytesMax)}. Delete backups, or ask the operator for more (KEYHOOK_ARCHIVES_PER_ORG_MAX).`
}

/** For a request. */
export async function checkArchiveQuota(db: Executor, orgId: OrgId, bytesMax: number): Promise<void> {
  const problem = await archiveProblem(db, orgId, bytesMax)
  if (problem !== null) throw new Fault('limit.reached', { public: problem })
}

/** For a job, which fails with the reason. */
export async function requireArchiveQuota(
  db: Executor,
  orgId: OrgId,
  bytesMax: number,
  moreBytes?: number,
): Promise<void> {
  const problem = await archiveProblem(db, orgId, bytesMax, moreBytes)
  if (problem !== null) throw new StepFailure(problem, { permanent: true })
}
