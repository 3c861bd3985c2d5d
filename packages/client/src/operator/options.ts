import type { CallOptions } from '../transport.ts'

export type OperatorCreationOptions = CallOptions & {
  /** The same key and content again is answered with the first record, without secrets. Kept for 24 hours. */
  idempotencyKey?: string | undefined
}
