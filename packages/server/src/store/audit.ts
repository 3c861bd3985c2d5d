import type { Actor, AuditAction, AuditEntry, AuditEntryId } from '../domain/audit.ts'
import { newId, type OrgId, type UserId } from '../kernel/ids.ts'
import type { Database, Transaction } from './database.ts'
import type { PageRequest } from './page.ts'

export type AuditRow = {
  id: AuditEntryId
  at: Date
  action: AuditAction
  actor_kind: Actor['kind']
  user_id: UserId | null
  credential: string | null
  address: string | null
  target_id: string
  details: Record<string, unknown>
}

/** Takes a transaction and nothing else: an entry stands or falls with the change it reports. */
export const recordAudit = async (tx: Transaction, entry: AuditEntry): Promise<void> => {
  const { actor } = entry
  await tx`
    insert into keyhook.audit_entries (org_id, id, action, actor_kind, user_id, credential, address, target_id, details)
    values (
      ${entry.orgId}, ${newId('aud')}, ${entry.action}, ${actor.kind},
      ${actor.kind === 'operator' ? null : actor.userId},
      ${actor.kind === 'key' ? actor.keyId : actor.tokenId},
      ${actor.address}, ${entry.targetId}, ${tx.json(entry.details ?? {})}
    )`
}

export const listAudit = (db: Database, orgId: OrgId, { before, limit }: PageRequest) => db<AuditRow[]>`
  select id, at, action, actor_kind, user_id, credential, address, target_id, details
  from keyhook.audit_entries
  where org_id = ${orgId} and (${before}::text is null or id < ${before})
  order by id desc
  limit ${limit}`
