import type { PublishingTransaction } from '../db/database.ts'
import { publishEachOptional, publishOptional } from '../delivery/optional-events.ts'
import type { RevocationReason } from '../delivery/optional-types.ts'
import type { KeyId, OrgId, UserId } from '../lib/ids.ts'
import { isoTime } from '../lib/time.ts'

/*
 * Who is told about keys, in the transaction of the change. Publishing holds the organization's event counter until the commit, so
 * these are the last calls of a transaction.
 */

/** What identifies a key to people. */
export type NamedKey = { id: KeyId; name: string; keyPrefix: string }

const dataOf = ({ id, name, keyPrefix }: NamedKey) => ({ api_key_id: id, name, key_prefix: keyPrefix })

type NewKey = NamedKey & { createdBy: UserId; createdByKey: KeyId | null; expiresAt: Date | null }

export const announceCreated = (tx: PublishingTransaction, orgId: OrgId, key: NewKey): Promise<void> =>
  publishOptional(tx, {
    orgId,
    type: 'key.created',
    data: {
      ...dataOf(key),
      created_by: key.createdBy,
      created_by_key: key.createdByKey,
      expires_at: key.expiresAt && isoTime(key.expiresAt),
    },
  })

/** `reasonOf` where the keys were not all revoked for the same reason. */
export const announceRevoked = (
  tx: PublishingTransaction,
  orgId: OrgId,
  keys: readonly NamedKey[],
  reasonOf: (key: NamedKey) => RevocationReason,
): Promise<void> =>
  publishEachOptional(tx, {
    orgId,
    type: 'key.revoked',
    data: keys.map((key) => ({ ...dataOf(key), reason: reasonOf(key) })),
  })

/** `foundAt`: the address of the place, if the reporter has named it. */
export const announceLeaked = (
  tx: PublishingTransaction,
  orgId: OrgId,
  { foundAt, alsoRevoked, ...key }: NamedKey & { foundAt: string | null; alsoRevoked: number },
): Promise<void> =>
  publishOptional(tx, {
    orgId,
    type: 'key.leaked',
    data: { ...dataOf(key), found_at: foundAt, also_revoked: alsoRevoked },
  })

export const announceExpired = (tx: PublishingTransaction, orgId: OrgId, keys: readonly NamedKey[]): Promise<void> =>
  announceRevoked(tx, orgId, keys, () => 'expired')

/** 14, 7 and 1 days before the end of a key. `daysLeft` is rounded up. */
export const announceExpiring = (
  tx: PublishingTransaction,
  orgId: OrgId,
  keys: readonly (NamedKey & { expiresAt: Date; daysLeft: number })[],
): Promise<void> =>
  publishEachOptional(tx, {
    orgId,
    type: 'key.expiring',
    data: keys.map((key) => ({ ...dataOf(key), expires_at: isoTime(key.expiresAt), days_left: key.daysLeft })),
  })
