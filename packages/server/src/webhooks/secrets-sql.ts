import type { Database, Transaction } from '../db/database.ts'
import { copyVersion } from '../delivery/lane-sql.ts'
import type { OrgId, WebhookId } from '../lib/ids.ts'
import type { Sealed } from '../lib/master-keys.ts'

export type SealedSecret = { orgId: OrgId; id: WebhookId; sealed: Sealed }

type Row = { org_id: OrgId; id: WebhookId; secret_key_id: string; secret_box: Buffer }

export const listSecretsOfOtherKeys = async (db: Database, keyId: string, limit: number): Promise<SealedSecret[]> => {
  const rows = await db<Row[]>`
    select org_id, id, secret_key_id, secret_box from keyhook.webhooks
    where deleted_at is null and secret_key_id <> ${keyId}
    union all
    select org_id, id, old_key_id, old_box from keyhook.webhooks where overlap_until is not null and old_key_id <> ${keyId}
    limit ${limit}`
  return rows.map((row) => ({
    orgId: row.org_id,
    id: row.id,
    sealed: { keyId: row.secret_key_id, box: row.secret_box },
  }))
}

const sampleRows = 1_000

/**
 * The master keys that seal webhook secrets, from a sample at both ends of the index. Every start asks, and reading millions of
 * webhooks would take seconds.
 */
export const keyIdsInUse = async (db: Database): Promise<string[]> => {
  const rows = await db<{ id: string }[]>`
    select distinct secret_key_id as id from (
      (select secret_key_id from keyhook.webhooks where deleted_at is null order by org_id, id limit ${sampleRows})
      union all
      (select secret_key_id from keyhook.webhooks where deleted_at is null order by org_id desc, id desc limit ${sampleRows})
      union all
      (select old_key_id from keyhook.webhooks where overlap_until is not null order by overlap_until desc limit ${sampleRows})
    ) as sample
    order by id`
  return rows.map((row) => row.id)
}

/** Reads the whole table where there is none: only for the case that a key is missing. */
export const anySecretUnder = async (db: Database, keyIds: readonly string[]): Promise<boolean> => {
  const rows = await db`
    select 1 from keyhook.webhooks
    where deleted_at is null and (secret_key_id = any(${[...keyIds]}::text[]) or old_key_id = any(${[...keyIds]}::text[]))
    limit 1`
  return rows.count > 0
}

/** Webhooks whose current secret it is. Reads the whole table, as the deletion after it does. */
export const countSecretsUnder = async (db: Database, keyId: string): Promise<number> => {
  const [row] = await db<[{ count: number }]>`
    select count(*)::float8 as count from keyhook.webhooks where deleted_at is null and secret_key_id = ${keyId}`
  return row.count
}

export type SecretPlace = { orgId: OrgId; id: WebhookId }

/** In the order of the index, after `last`: deleted rows are not read again. */
export const listSecretsOfKey = async (
  db: Database,
  keyId: string,
  last: SecretPlace | null,
  limit: number,
): Promise<SecretPlace[]> => {
  const rows = await db<{ org_id: OrgId; id: WebhookId }[]>`
    select org_id, id from keyhook.webhooks
    where deleted_at is null and (secret_key_id = ${keyId} or old_key_id = ${keyId}) and (org_id, id) > (${last?.orgId ?? ''}, ${last?.id ?? ''})
    order by org_id, id
    limit ${limit}`
  return rows.map((row) => ({ orgId: row.org_id, id: row.id }))
}

/** Which of the webhook's secrets are sealed under this key; it stays so until the transaction ends. */
export const lockSecretsUnder = async (
  tx: Transaction,
  orgId: OrgId,
  id: WebhookId,
  keyId: string,
): Promise<{ current: boolean; old: boolean }> => {
  const [row] = await tx<{ current: boolean; old: boolean }[]>`
    select secret_key_id = ${keyId} as current, coalesce(old_key_id = ${keyId}, false) as old from keyhook.webhooks
    where org_id = ${orgId} and id = ${id} and deleted_at is null for no key update`
  return row ?? { current: false, old: false }
}

/** Only if it was not changed or erased in between. */
export const replaceSecret = async (db: Database, orgId: OrgId, id: WebhookId, from: Sealed, to: Sealed) => {
  await db`
    update keyhook.webhooks
    set secret_key_id = case when secret_box = ${from.box} then ${to.keyId} else secret_key_id end,
      secret_box = case when secret_box = ${from.box} then ${to.box} else secret_box end,
      old_key_id = case when old_box = ${from.box} then ${to.keyId} else old_key_id end,
      old_box = case when old_box = ${from.box} then ${to.box} else old_box end
    where org_id = ${orgId} and id = ${id} and ${from.box} in (secret_box, old_box)`
}

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
    update keyhook.webhooks
    set secret_key_id = ${secret.keyId}, secret_box = ${secret.box}, switched = false, version = version + 1,
      old_key_id = case when ${overlaps} then case when overlap_until > now() then old_key_id else secret_key_id end end,
      old_box = case when ${overlaps} then case when overlap_until > now() then old_box else secret_box end end,
      rotated_at = case when ${overlaps} then now() end,
      overlap_until = case when ${overlaps} then now() + ${overlapSeconds} * interval '1 second' end
    where org_id = ${orgId} and id = ${id}`
  await copyVersion(tx, orgId, id)
}

/** The new secret signs from now on; the old one ends after `overlapSeconds`. */
export const switchSecret = async (tx: Transaction, orgId: OrgId, id: WebhookId, overlapSeconds: number) => {
  await tx`
    update keyhook.webhooks
    set switched = true, version = version + 1, overlap_until = now() + ${overlapSeconds} * interval '1 second'
    where org_id = ${orgId} and id = ${id}`
  await copyVersion(tx, orgId, id)
}

/** The secret of before is erased, and the overlap with it. */
export const endRotation = async (tx: Transaction, orgId: OrgId, id: WebhookId): Promise<void> => {
  await tx`
    update keyhook.webhooks
    set old_key_id = null, old_box = null, rotated_at = null, overlap_until = null, switched = false, version = version + 1
    where org_id = ${orgId} and id = ${id}`
  await copyVersion(tx, orgId, id)
}

/** A rotation needs a person or a script of the organization, so these are years of them. */
const rotationsSearched = 10_000

/**
 * When the secrets of these webhooks were last replaced: only the audit log has it once the overlap is over. `knownSince`: what is
 * older was not searched; null if everything was.
 */
export const findLastRotations = async (
  tx: Transaction,
  orgId: OrgId,
  ids: readonly WebhookId[],
  searched = rotationsSearched,
): Promise<{ rotated: Map<WebhookId, Date>; knownSince: Date | null }> => {
  const rows = await tx<{ id: WebhookId | null; at: Date }[]>`
    with newest as materialized (
      select target_id, at from keyhook.audit_entries
      where org_id = ${orgId} and action = 'webhook.secret_rotated' order by id desc limit ${searched}
    )
    select target_id as id, max(at) as at from newest where target_id = any (${[...ids]}::text[]) group by target_id
    union all
    select null, min(at) from newest having count(*) = ${searched}::int`
  const rotated = new Map(rows.flatMap(({ id, at }) => (id === null ? [] : [[id, at] as const])))
  return { rotated, knownSince: rows.find(({ id }) => id === null)?.at ?? null }
}
