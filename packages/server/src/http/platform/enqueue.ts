import type { PlatformJob } from '../../domain/platform-job.ts'
import type { Transaction } from '../../store/database.ts'

/** Hands work over in the transaction that asks for it. */
export type Enqueue = (tx: Transaction, job: PlatformJob) => Promise<void>
