import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { expiredBackups } from '../../src/backups/sql.ts'
import { runBackupSchedule, watchBackupSchedule } from '../../src/backups/upkeep.ts'
import { databasesDueForBackup } from '../../src/databases/sql.ts'
import type { Executor, Transaction } from '../../src/db/database.ts'
import type { JobQueue } from '../../src/jobs/queue.ts'
import { newId, type OrgId, type UserId } from '../../src/lib/ids.ts'
import type { Installation } from '../../src/startup/open.ts'
import { testLog } from '../databases/support/platform.ts'
import { holdOpen } from '../kit/hold-open.ts'
import { createOwnedInstallation } from '../kit/installation.ts'
import { until } from '../kit/until.ts'
import '../kit/server-limits.ts'

let installation: Installation
let orgId: OrgId
let userId: UserId
beforeAll(async () => {
  ;({ installation, orgId, userId } = await createOwnedInstallation())
  await installation.db`
    insert into keyhook.databases (org_id, id, name, status, node, host, port, created_by)
    select ${orgId}, 'db_' || n, 'shop', 'available', 'here', 'localhost', 1, ${userId} from generate_series(1, 20) n`
})
afterAll(() => installation.close())

/** Inserts `each` backups for every database, an hour apart. All but the last three are deleted. */
async function insertBackups(each: number): Promise<void> {
  const { db } = installation
  await db`
    insert into keyhook.backups (org_id, id, database_id, node, origin, status, size_bytes, sha256, created_at)
    select d.org_id, 'bak_' || d.id || '_' || lpad(n::text, 8, '0'), d.id, d.node, 'scheduled',
      case when n <= ${each} - 3 then 'deleted' else 'completed' end, 1, '', now() - make_interval(hours => ${each} - n)
    from keyhook.databases d, generate_series(1, ${each}::int) n`
  await db`analyze keyhook.backups`
  await db`analyze keyhook.databases`
}

type Plan = {
  'Relation Name'?: string
  'Index Name'?: string
  'Actual Rows': number
  'Actual Loops': number
  'Rows Removed by Filter'?: number
  Plans?: Plan[]
}

/** The plan of the same statement. */
async function planOf(ask: (db: Executor) => unknown): Promise<Plan[]> {
  const { db } = installation
  const explaining = (strings: TemplateStringsArray, ...values: never[]) => {
    const [first, ...rest] = strings
    const text = [`explain (analyze, format json) ${first}`, ...rest]
    return db(Object.assign(text, { raw: text }), ...values)
  }
  const [row] = (await ask(explaining as unknown as Executor)) as [{ 'QUERY PLAN': [{ Plan: Plan }] }]
  const all = (plan: Plan): Plan[] => [plan, ...(plan.Plans ?? []).flatMap(all)]
  return all(row['QUERY PLAN'][0].Plan)
}

/** How many backups were read, and through which indexes. */
function reading(plan: Plan[]) {
  const read = (node: Plan) => (node['Actual Rows'] + (node['Rows Removed by Filter'] ?? 0)) * node['Actual Loops']
  return {
    indexes: plan
      .flatMap((node) => node['Index Name'] ?? [])
      .filter((name) => name.startsWith('backups'))
      .sort(),
    rows: plan.reduce((sum, node) => sum + (node['Relation Name'] === 'backups' ? read(node) : 0), 0),
  }
}

test('finding databases that are due and backups that expired does not read deleted backups', async () => {
  await insertBackups(1_000)
  const due = reading(await planOf((db) => databasesDueForBackup(db, 'here', 24)))
  expect(due.indexes).toContain('backups_scheduled')
  expect(due.rows).toBeLessThanOrEqual(20)
  const expired = reading(await planOf((db) => expiredBackups(db, 'here', 2)))
  expect(expired.indexes).toContain('backups_scheduled_completed')
  expect(expired.rows).toBeLessThanOrEqual(60)
})

test('a slow pass of the schedule is never joined by a second one', async () => {
  const { db } = installation
  const closing = new AbortController()
  onTestFinished(() => closing.abort())
  await db.begin(async (tx) => {
    const waiting = async () => {
      const [row] = await tx<[{ count: number }]>`
        select count(*)::int as count from pg_locks where relation = 'keyhook.databases'::regclass and not granted`
      return row.count
    }
    await tx`lock keyhook.databases in access exclusive mode`
    const deps = { db, queue: {} as JobQueue, node: 'nowhere', signal: closing.signal, log: testLog(), pauseMs: 1 }
    void watchBackupSchedule(deps, { everyHours: 24, keep: 1 })
    await until(waiting, (count) => count > 0)
    for (let look = 0; look < 50; look++) expect(await waiting()).toBe(1)
  })
})

/** Runs a pass that waits for a change which is committed after the pass has read its list. */
async function passDuring(node: string, change: (tx: Transaction) => Promise<unknown>): Promise<void> {
  const { db } = installation
  const commit = await holdOpen(db, change)
  // Enqueueing a job would throw.
  const pass = runBackupSchedule({ db, queue: {} as JobQueue, node }, { everyHours: 24, keep: 0 })
  pass.catch(() => {})
  const waiting = async () => {
    const [row] = await db<[{ count: number }]>`
      select count(*)::int as count from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock'`
    return row.count
  }
  await until(waiting, (count) => count > 0)
  await commit()
  await pass
}

test('backups and databases that changed since the pass read its list are skipped, without an error', async () => {
  const { db } = installation
  const database = (id: string, status: string) => db`
    insert into keyhook.databases (org_id, id, name, status, node, host, port, created_by)
    values (${orgId}, ${id}, 'shop', ${status}, 'there', 'localhost', 1, ${userId})`
  const backup = (to: Executor, id: string, databaseId: string, status: string) => to`
    insert into keyhook.backups (org_id, id, database_id, node, origin, status, size_bytes, sha256)
    values (${orgId}, ${id}, ${databaseId}, 'there', 'scheduled', ${status}, 1, '')`
  await database('db_started', 'available')
  await passDuring('there', async (tx) => {
    await tx`select 1 from keyhook.databases where id = 'db_started' for update`
    await backup(tx, 'bak_started', 'db_started', 'running')
  })
  await database('db_deleted', 'available')
  await passDuring('there', (tx) => tx`update keyhook.databases set status = 'deleting' where id = 'db_deleted'`)
  await backup(db, 'bak_deleted', 'db_deleted', 'completed')
  await passDuring('there', (tx) => tx`update keyhook.backups set status = 'deleted' where id = 'bak_deleted'`)
  await backup(db, 'bak_read', 'db_deleted', 'completed')
  await database('db_restored', 'failed')
  await passDuring('there', async (tx) => {
    await tx`select 1 from keyhook.backups where id = 'bak_read' for update`
    await tx`
      insert into keyhook.restores (org_id, id, backup_id, database_id, status, created_by)
      values (${orgId}, 'rst_1', 'bak_read', 'db_restored', 'running', ${userId})`
  })
  const left = await db`select id, status from keyhook.backups where node = 'there' order by id`
  expect(left.map((row) => `${row.id} ${row.status}`)).toEqual([
    'bak_deleted deleted',
    'bak_read completed',
    'bak_started running',
  ])
})

test('a database with a schedule of its own is due by it, also where the operator has none, and keeps its number', async () => {
  const { db } = installation
  const node = 'with own schedules'
  const database = async (own: number | null, kept: number | null, hoursAgo: number) => {
    const id = newId('db')
    await db`
      insert into keyhook.databases
        (org_id, id, name, status, node, host, port, backup_every_hours, backups_kept, created_by)
      values (${orgId}, ${id}, 'shop', 'available', ${node}, '127.0.0.1', 1, ${own}, ${kept}, ${userId})`
    for (let i = 0; i < 3; i++) {
      await db`
        insert into keyhook.backups (org_id, id, database_id, node, origin, status, size_bytes, sha256, created_at)
        values (${orgId}, ${newId('bak')}, ${id}, ${node}, 'scheduled', 'completed', 1, 'x',
          now() - make_interval(hours => ${hoursAgo}))`
    }
    return id
  }
  const [hourly, weekly, plain] = [await database(1, 1, 2), await database(168, 3, 48), await database(null, null, 48)]
  const due = async (hours: number | null) => (await databasesDueForBackup(db, node, hours)).map(({ id }) => id).sort()
  expect(await due(24)).toEqual([hourly, plain].sort())
  expect(await due(null)).toEqual([hourly])
  const expired = await expiredBackups(db, node, 2)
  const rows = await db<{ id: string; database_id: string }[]>`select id, database_id from keyhook.backups`
  const databaseOf = new Map(rows.map(({ id, database_id }) => [id, database_id]))
  const counts = Object.groupBy(expired, ({ id }) => databaseOf.get(id)!)
  expect([counts[hourly]?.length, counts[weekly]?.length, counts[plain]?.length]).toEqual([2, undefined, 1])
})
