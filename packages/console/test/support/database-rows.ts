import { storageMessage } from '../../../server/src/databases/storage-rules.ts'
import { type DatabaseId, newId } from '../../../server/src/lib/ids.ts'
import { api, orgId, owner } from './console-test.ts'

/** Rows of a database in any state, without the database: no node runs here that would change them. */
export async function addDatabase(name: string, status: 'provisioning' | 'available' | 'failed'): Promise<DatabaseId> {
  const id = newId('db')
  const failure = status === 'failed' ? 'The node has no room for another database.' : null
  await api.db`insert into keyhook.nodes (id, databases_max) values ('n', 0) on conflict do nothing`
  await api.db`
    insert into keyhook.databases (org_id, id, name, status, node, host, port, failure, created_by)
    values (${orgId}, ${id}, ${name}, ${status}, 'n', '127.0.0.1', 5432, ${failure}, ${owner.userId})`
  return id
}

/** What its node would have measured. */
export async function addStorage(id: DatabaseId, state: 'normal' | 'read_only' | 'stopped', usedBytes: number) {
  const limitBytes = 100 * 1024 ** 2
  await api.db`
    insert into keyhook.database_stats (org_id, database_id, storage_used_bytes, storage_limit_bytes, storage_state,
      storage_message, measured_at)
    values (${orgId}, ${id}, ${usedBytes}, ${limitBytes}, ${state}, ${storageMessage(state, 'limit', limitBytes)}, now())`
}
