import { wasRejected } from '../../db/database.ts'
import type { OrgId } from '../../kernel/ids.ts'
import { UnknownOrganization } from '../../store/delivery/events.ts'
import type { Report } from './publish.ts'

/** As the reporter gave it; `bytes` is about what it takes to write it down. */
export type Reporting = Report & { bytes: number }

/** All its events are of this organization. */
export type Waiting = Reporting & { orgId: OrgId; resolve(ids: string[]): void; reject(error: unknown): void }

/** PostgreSQL has said no, or was never asked. After anything else, such as a connection that broke, it may well be on disk. */
export const isOfOne = (error: unknown): boolean =>
  !(error instanceof UnknownOrganization) && (wasRejected(error) || (error instanceof Error && !('code' in error)))
