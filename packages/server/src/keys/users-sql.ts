import type { Transaction } from '../db/database.ts'
import type { KeyId, OrgId, UserId } from '../lib/ids.ts'

/** Locked until the transaction ends: a removal of the member locks the membership and then the keys. */
export const lockServiceMember = (tx: Transaction, orgId: OrgId, userId: UserId) =>
  tx`
  select 1 from keyhook.memberships m join keyhook.users u on u.id = m.user_id
  where m.org_id = ${orgId} and m.user_id = ${userId} and u.is_service for key share of m`.exists()

/** The user whom a key acts as; null if there is no such key, or the user has left. The membership is locked, too. */
export const lockUserOfKey = (tx: Transaction, orgId: OrgId, id: KeyId) =>
  tx<{ user_id: UserId; is_service: boolean }[]>`
    select u.id as user_id, u.is_service
    from keyhook.api_keys k
    join keyhook.memberships m on m.org_id = k.org_id and m.user_id = k.created_by
    join keyhook.users u on u.id = m.user_id
    where k.org_id = ${orgId} and k.id = ${id}
    for key share of m`.first()
