import type { Actor } from '../access/audit.ts'
import { recordAudit } from '../access/audit.ts'
import type { Database } from '../db/database.ts'
import type { DatabaseId } from '../lib/ids.ts'
import { noSuch } from '../organizations/directory.ts'
import { setStorageLimit } from './usage-sql.ts'

/** The limit of one database in place of its node's setting; null: the setting again. Its node follows within seconds. */
export async function changeStorageLimit(
  db: Database,
  actor: Actor,
  { id, limitBytes }: { id: DatabaseId; limitBytes: number | null },
): Promise<void> {
  await db.begin(async (tx) => {
    const changed = await setStorageLimit(tx, id, limitBytes)
    if (changed === null) throw noSuch('database', id)
    const { orgId, before } = changed
    if (before === limitBytes) return
    const action = 'database.storage_limit_changed'
    await recordAudit(tx, { orgId, action, actor, targetId: id, details: { from: before, to: limitBytes } })
  })
}
