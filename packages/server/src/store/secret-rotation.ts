import type { Database, Transaction } from '../db/database.ts'
import type { OrgId, WebhookId } from '../kernel/ids.ts'
import type { Sealed } from '../kernel/master-keys.ts'

/*
 * A webhook has a second secret while its secret is replaced. Each statement gives the webhook and its lane the next version, as
 * every change of its settings does: holders of the lane learn of it before their next attempt.
 */

export type RotationRow = { rotated_at: Date; overlap_until: Date; switched: boolean }

/** The rotation whose overlap has not ended; null without one. Locked: no other change happens until the transaction ends. */
export const lockRotation = async (tx: Transaction, orgId: OrgId, id: WebhookId): Promise<RotationRow | null> => {
  const [row] = await tx<RotationRow[]>`
    select rotated_at, overlap_until, switched from keyhook.webhooks
    where org_id = ${orgId} and id = ${id} and overlap_until > now() for no key update`
  return row ?? null
}

/**
 * The webhook gets a new secret. Before the switch of a rotation it replaces the new one, and the old one stays. With an overlap of
 * zero the old one is erased at once, and that of an earlier rotation too.
 */
export const rotateSecret = async (
  tx: Transaction,
  orgId: OrgId,
  id: WebhookId,
  { secret, overlapSeconds }: { secret: Sealed; overlapSeconds: number },
): Promise<void> => {
  const overlaps = overlapSeconds > 0
  await tx`
    with changed as (
      update keyhook.webhooks
      set secret_key_id = ${secret.keyId}, secret_box = ${secret.box}, switched = false, version = version + 1,
        old_key_id = case when ${overlaps} then case when overlap_until > now() then old_key_id else secret_key_id end end,
        old_box = case when ${overlaps} then case when overlap_until > now() then old_box else secret_box end end,
        rotated_at = case when ${overlaps} then now() end,
        overlap_until = case when ${overlaps} then now() + ${overlapSeconds} * interval '1 second' end
      where org_id = ${orgId} and id = ${id}
      returning lane_id, version
    )
    update keyhook.lanes l set version = c.version from changed c where l.id = c.lane_id`
}

/** The new secret signs from now on; the old one ends after `overlapSeconds`. */
export const switchSecret = async (
  tx: Transaction,
  orgId: OrgId,
  id: WebhookId,
  overlapSeconds: number,
): Promise<void> => {
  await tx`
    with changed as (
      update keyhook.webhooks
      set switched = true, version = version + 1, overlap_until = now() + ${overlapSeconds} * interval '1 second'
      where org_id = ${orgId} and id = ${id}
      returning lane_id, version
    )
    update keyhook.lanes l set version = c.version from changed c where l.id = c.lane_id`
}

/** The secret of before is erased, and the overlap with it. */
export const endRotation = async (tx: Transaction, orgId: OrgId, id: WebhookId): Promise<void> => {
  await tx`
    with changed as (
      update keyhook.webhooks
      set old_key_id = null, old_box = null, rotated_at = null, overlap_until = null, switched = false, version = version + 1
      where org_id = ${orgId} and id = ${id}
      returning lane_id, version
    )
    update keyhook.lanes l set version = c.version from changed c where l.id = c.lane_id`
}

/** Erases the old secrets of all overlaps that have ended. Returns how many. */
export const eraseOldSecrets = async (db: Database): Promise<number> => {
  const erased = await db`
    with ended as materialized (
      select org_id, id from keyhook.webhooks where overlap_until <= now()
      order by org_id, id for no key update skip locked
    ), changed as (
      update keyhook.webhooks w
      set old_key_id = null, old_box = null, rotated_at = null, overlap_until = null, switched = false, version = version + 1
      from ended e where w.org_id = e.org_id and w.id = e.id
      returning w.lane_id, w.version
    )
    update keyhook.lanes l set version = c.version from changed c where l.id = c.lane_id`
  return erased.count
}
