import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { DatabaseDriver } from '../databases/drivers/driver.ts'
import type { Database, Executor, Transaction } from '../db/database.ts'
import { traceStep } from '../jobs/worker.ts'
import type { BackupId, DatabaseId, OrgId } from '../lib/ids.ts'
import type { KeyedQueue } from '../lib/keyed-queue.ts'
import { addErased } from './sql.ts'

const checkMs = 1_000

type Deps = {
  db: Database
  driver: DatabaseDriver
  node: string
  databaseWork: KeyedQueue
  /** The databases whose WAL is being stored now: what they store would stay. */
  archiving: ReadonlySet<DatabaseId>
  signal: AbortSignal
  log: Logger
}

/** Erases the databases of deleted organizations that are on this node: files, backups, WAL and then their rows. */
export async function watchErasedDatabases(deps: Deps): Promise<void> {
  const { db, node, signal, log } = deps
  while (!signal.aborted) {
    try {
      for (const { org_id: orgId, id } of await databasesToErase(db, node)) {
        if (signal.aborted) return
        if (deps.archiving.has(id)) continue
        await eraseDatabase(deps, orgId, id).catch((err) => {
          if (!signal.aborted) log.warn({ err, databaseId: id }, 'database.not_erased')
        })
      }
    } catch (err) {
      log.warn({ err }, 'deletion.databases_not_read')
    }
    await sleep(checkMs, undefined, { signal }).catch(() => {})
  }
}

/** The rows are the record of what is stored, so they go last. What is removed twice makes no difference. */
async function eraseDatabase({ db, driver, databaseWork }: Deps, orgId: OrgId, id: DatabaseId): Promise<void> {
  await databaseWork.run(id, async () => {
    traceStep('erase.removing', id)
    const objects = await driver.erase(id, await backupsOf(db, orgId, id))
    traceStep('erase.settling', id)
    await db.begin((tx) => deleteDatabaseRows(tx, orgId, id, objects))
    traceStep('erase.settled', id)
  })
}

/**
 * Those of this node whose removal is done, and those of nodes that were forgotten. What such a node has on its own disk is out of reach.
 * The rest is removed by a node that has the same store; without one, only the rows are left.
 */
const databasesToErase = (db: Database, node: string) => db<{ org_id: OrgId; id: DatabaseId }[]>`
  select d.org_id, d.id
  from keyhook.organizations o
  join keyhook.databases d on d.org_id = o.id
  left join keyhook.nodes n on n.id = d.node
  where o.deleted_at is not null and case
    when n.id is null or n.state = 'forgotten' then d.status in ('deleting', 'deleted') and (
      n.store = (select own.store from keyhook.nodes own where own.id = ${node})
      or not exists (select from keyhook.nodes other where other.store = n.store and other.state <> 'forgotten')
    ) and not exists (
      -- Backups that another node has taken over are in the store of that node.
      select from keyhook.backups b join keyhook.nodes holder on holder.id = b.node and holder.state <> 'forgotten'
      where b.org_id = d.org_id and b.database_id = d.id and b.status <> 'deleted' and holder.id <> ${node}
        and holder.store is distinct from (select own.store from keyhook.nodes own where own.id = ${node})
    )
    else d.node = ${node} and d.status = 'deleted'
  end
  order by d.id
  limit 1000`

const backupsOf = async (db: Executor, orgId: OrgId, id: DatabaseId): Promise<BackupId[]> => {
  const rows = await db<{ id: BackupId }[]>`
    select id from keyhook.backups where org_id = ${orgId} and database_id = ${id} and status <> 'deleted' order by id`
  return rows.map((row) => row.id)
}

async function deleteDatabaseRows(tx: Transaction, orgId: OrgId, id: DatabaseId, objects: number): Promise<void> {
  const restores = await tx`
    delete from keyhook.restores where org_id = ${orgId} and (
      database_id = ${id}
      or backup_id in (select b.id from keyhook.backups b where b.org_id = ${orgId} and b.database_id = ${id})
    )`
  const backups = await tx`delete from keyhook.backups where org_id = ${orgId} and database_id = ${id}`
  await tx`delete from keyhook.wal_archives where org_id = ${orgId} and database_id = ${id}`
  await tx`delete from keyhook.database_stats where org_id = ${orgId} and database_id = ${id}`
  await tx`delete from keyhook.database_usage where org_id = ${orgId} and database_id = ${id}`
  const databases = await tx`delete from keyhook.databases where org_id = ${orgId} and id = ${id}`
  const { count } = databases
  // Another process has erased it.
  if (count === 0) return
  await addErased(tx, orgId, {
    databases: count,
    backups: backups.count,
    restores: restores.count,
    stored_objects: objects,
  })
}
