import type { Transaction } from '../../db/database.ts'
import type { PlatformJob } from '../../domain/platform-job.ts'

/** Hands work over in the transaction that asks for it. */
export type Enqueue = (tx: Transaction, job: PlatformJob) => Promise<void>
