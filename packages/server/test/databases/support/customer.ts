import type { Database } from '../../../src/db/database.ts'
import type { OrgId } from '../../../src/lib/ids.ts'
import type { Reply } from '../../kit/client.ts'
import { customerSqlForTest } from '../../kit/customer-sql.ts'
import { until } from '../../kit/until.ts'

export type DatabaseBody = {
  id: string
  name: string
  status: string
  host: string | null
  port: number | null
  user: string
  database: string
  connection_string: string | null
  failure: string | null
  password?: string
}
export type BackupBody = {
  id: string
  status: string
  failure: string | null
  bytes_done: number
  bytes_total: number | null
  size_bytes: number | null
}
export type RestoreBody = {
  id: string
  status: string
  failure: string | null
  bytes_done: number
  bytes_total: number | null
}

export type Request = <T>(path: string, more?: { method?: string; body?: unknown; token?: string }) => Promise<Reply<T>>

/** What a customer does over HTTP, and waits for. */
export function customerOf(request: Request) {
  const get = async <T>(path: string): Promise<T> => (await request<T>(path)).body

  const settledDatabase = (id: string): Promise<DatabaseBody> =>
    until(
      () => get<DatabaseBody>(`/databases/${id}`),
      // Its node may not have said yet that it runs.
      ({ status }) => status !== 'provisioning' && status !== 'unreachable',
    )
  const settledBackup = (id: string): Promise<BackupBody> =>
    until(
      () => get<BackupBody>(`/backups/${id}`),
      (backup) => backup.status !== 'running',
    )
  const settledRestore = (id: string): Promise<RestoreBody> =>
    until(
      () => get<RestoreBody>(`/restores/${id}`),
      (restore) => restore.status !== 'running',
    )
  const gone = (path: string): Promise<unknown> =>
    until(
      async () => (await request(path)).status,
      (status) => status === 404,
    )

  return {
    request,
    get,
    settledDatabase,
    settledBackup,
    settledRestore,
    gone,
    async askForDatabase(name: string): Promise<DatabaseBody & { password: string }> {
      return (await request<DatabaseBody & { password: string }>('/databases', { body: { name } })).body
    },
    async createDatabase(name = 'shop'): Promise<DatabaseBody & { password: string }> {
      const { body } = await request<DatabaseBody & { password: string }>('/databases', { body: { name } })
      const ready = await settledDatabase(body.id)
      if (ready.status !== 'available') throw new Error(`${ready.status}: ${ready.failure}`)
      return { ...ready, password: body.password }
    },
    async removeDatabase(id: string): Promise<void> {
      await request(`/databases/${id}`, { method: 'DELETE' })
      await gone(`/databases/${id}`)
    },
    async askForBackup(databaseId: string): Promise<BackupBody> {
      return (await request<BackupBody>(`/databases/${databaseId}/backups`, { method: 'POST' })).body
    },
    async takeBackup(databaseId: string): Promise<BackupBody> {
      const { body } = await request<BackupBody>(`/databases/${databaseId}/backups`, { method: 'POST' })
      return settledBackup(body.id)
    },
    async askForRestore(backupId: string, name: string): Promise<AskedRestore> {
      return (await request<AskedRestore>(`/backups/${backupId}/restore`, { body: { name } })).body
    },
    async restoreBackup(backupId: string, name = 'copy'): Promise<AskedRestore> {
      const { body } = await request<AskedRestore>(`/backups/${backupId}/restore`, { body: { name } })
      const restore = await settledRestore(body.restore.id)
      const database = await settledDatabase(body.database.id)
      return { restore, database: { ...database, password: body.database.password } }
    },
  }
}

type AskedRestore = { restore: RestoreBody; database: DatabaseBody & { password: string } }

/** An ordinary client with the printed string. Ended with the test. */
export const clientOf = (database: { connection_string: string | null; password: string }, max = 1): Database =>
  customerSqlForTest(database.connection_string!, database.password, max)

/** The event types of an organization, oldest first, with what each is about. */
export async function eventsOf(db: Database, orgId: OrgId | string) {
  const rows = await db<{ type: string; body: string }[]>`
    select type, body from keyhook.events where org_id = ${orgId} order by seq`
  return rows.map((row) => ({ type: row.type, data: JSON.parse(row.body).data as Record<string, unknown> }))
}

/** The types of the events about one thing, oldest first. */
export const eventsAbout = async (db: Database, orgId: OrgId | string, key: string, id: string) =>
  (await eventsOf(db, orgId)).filter((event) => event.data[key] === id)
