import { afterAll, beforeAll, expect, test } from 'vitest'
import type { BackupOrigin } from '../../src/backups/backup.ts'
import { expiredBackups } from '../../src/backups/sql.ts'
import {
  archivedBytes,
  findBaseBackup,
  needsBase,
  pruneWalArchive,
  recordArchivedWal,
  resetStoredBytes,
  walToReplay,
} from '../../src/databases/wal-sql.ts'
import { type BackupId, type DatabaseId, newId, type OrgId, type UserId } from '../../src/lib/ids.ts'
import type { Installation } from '../../src/startup/open.ts'
import { createOwnedInstallation } from '../kit/installation.ts'

let installation: Installation
let orgId: OrgId
let userId: UserId
beforeAll(async () => {
  ;({ installation, orgId, userId } = await createOwnedInstallation())
})
afterAll(() => installation.close())

const at = (hour: number) => new Date(Date.UTC(2026, 0, 31, hour))

async function newDatabase(): Promise<DatabaseId> {
  const id = newId('db')
  await installation.db`
    insert into keyhook.databases (org_id, id, name, status, node, host, port, created_by)
    values (${orgId}, ${id}, 'shop', 'available', 'here', '127.0.0.1', 1, ${userId})`
  return id
}

async function newBackup(databaseId: DatabaseId, hour: number, origin: BackupOrigin): Promise<BackupId> {
  const id = newId('bak')
  await installation.db`
    insert into keyhook.backups
      (org_id, id, database_id, node, origin, status, size_bytes, sha256, start_lsn, stop_lsn, stopped_at)
    values (${orgId}, ${id}, ${databaseId}, 'here', ${origin}, 'completed', 1, 'x',
      ${`0/${hour}000028`}, ${`0/${hour}000100`}, ${at(hour)})`
  return id
}

type Wal = { from: string | null; until: string; at: Date; bytes?: number; committed?: string; isEncrypted?: boolean }

const archived = (id: DatabaseId, wal: Wal) => {
  const usual = { bytes: 0, node: 'here', committed: wal.until, isEncrypted: false }
  return installation.db.begin((tx) => recordArchivedWal(tx, orgId, id, { ...usual, ...wal }))
}
const needs = (id: DatabaseId) => needsBase(installation.db, orgId, id, { hours: 24, bytesMax: 1_000 })
const baseFor = (id: DatabaseId, to: Date) => installation.db.begin((tx) => findBaseBackup(tx, orgId, id, to))
const prune = (id: DatabaseId) => installation.db.begin((tx) => pruneWalArchive(tx, orgId, id))

test('the newest backup before the time is the base, and the WAL up to the next one is replayed', async () => {
  const { db } = installation
  const id = await newDatabase()
  const [first, second] = [await newBackup(id, 2, 'scheduled'), await newBackup(id, 5, 'base')]
  await archived(id, { from: '0/1000000', until: '0/7000000', committed: '0/6000200', at: at(7) })
  expect(await baseFor(id, at(1))).toBeNull()
  expect(await baseFor(id, at(4))).toEqual({ id: first })
  expect(await baseFor(id, at(6))).toEqual({ id: second })
  expect(await baseFor(id, at(8))).toBeNull()
  expect(await walToReplay(db, orgId, first, at(4))).toEqual({
    from: '0/2000100',
    until: '0/5000100',
    committed: '0/5000100',
    encryptedFrom: null,
  })
  expect(await walToReplay(db, orgId, second, at(6))).toEqual({
    from: '0/5000100',
    until: '0/7000000',
    committed: '0/6000200',
    encryptedFrom: null,
  })
  expect(await needs(id)).toBe(false)

  // After a gap only what is behind it counts, and a new backup is needed.
  await archived(id, { from: '0/8000000', until: '0/9000000', at: at(9) })
  expect([await baseFor(id, at(6)), await walToReplay(db, orgId, first, at(4))]).toEqual([null, null])
  expect(await needs(id)).toBe(true)
})

test('the record says from where on the WAL is encrypted, and never takes that back', async () => {
  const id = await newDatabase()
  const base = await newBackup(id, 2, 'base')
  const encryptedFrom = async () => (await walToReplay(installation.db, orgId, base, at(3)))?.encryptedFrom
  await archived(id, { from: '0/1000000', until: '0/3000000', at: at(3) })
  expect(await encryptedFrom()).toBeNull()
  await archived(id, { from: null, until: '0/4000000', at: at(4), isEncrypted: true })
  expect(await encryptedFrom()).toBe('0/3000000')
  await archived(id, { from: null, until: '0/5000000', at: at(5), isEncrypted: false })
  expect(await encryptedFrom()).toBe('0/3000000')
  const other = await newDatabase()
  const first = await newBackup(other, 2, 'base')
  await archived(other, { from: '0/1000000', until: '0/3000000', at: at(3), isEncrypted: true })
  expect((await walToReplay(installation.db, orgId, first, at(3)))?.encryptedFrom).toBe('0/1000000')
})

test('the WAL is kept from the oldest base on, and for a restore that reads an older one', async () => {
  const { db } = installation
  const id = await newDatabase()
  const requested = await newBackup(id, 2, 'requested')
  const oldest = await newBackup(id, 3, 'base')
  await newBackup(id, 4, 'scheduled')
  await newBackup(id, 5, 'base')
  await archived(id, { from: '0/1000000', until: '0/7000000', at: at(7) })
  const restoreId = newId('rst')
  await db`
    insert into keyhook.restores (org_id, id, backup_id, database_id, recover_to, status, created_by)
    values (${orgId}, ${restoreId}, ${requested}, ${await newDatabase()}, ${at(2)}, 'running', ${userId})`
  expect(await prune(id)).toBe('0/2000028')
  await db`update keyhook.restores set status = 'completed' where org_id = ${orgId} and id = ${restoreId}`
  expect(await prune(id)).toBe('0/3000028')
  expect(await prune(id)).toBeNull()
  // The requested one is still a backup, but no base any more.
  expect(await baseFor(id, at(2))).toBeNull()
  expect(await baseFor(id, new Date(at(4).getTime() - 1))).toEqual({ id: oldest })

  await db`update keyhook.backups set status = 'deleting' where org_id = ${orgId} and id = ${oldest}`
  expect(await prune(id)).toBe('0/5000028')
})

test('without a base no WAL is removed', async () => {
  const id = await newDatabase()
  await newBackup(id, 3, 'requested')
  await newBackup(id, 4, 'scheduled')
  await archived(id, { from: '0/1000000', until: '0/7000000', at: at(7) })
  expect(await prune(id)).toBeNull()
})

test('a base is taken for a new log, a day later if anything was committed, and after much log', async () => {
  const { db } = installation
  const id = await newDatabase()
  expect(await needs(id)).toBe(false)
  await archived(id, { from: '0/1000000', until: '0/2000000', at: at(2) })
  expect(await needs(id)).toBe(true)
  // A backup that somebody asked for can be deleted by them at any time.
  await newBackup(id, 2, 'requested')
  expect(await needs(id)).toBe(true)
  const base = await newBackup(id, 2, 'base')
  expect(await needs(id)).toBe(false)

  await db`update keyhook.backups set created_at = now() - interval '25 hours' where org_id = ${orgId} and id = ${base}`
  // The segment of the base is the last one.
  await archived(id, { from: null, until: '0/3000000', at: at(3) })
  expect(await needs(id)).toBe(false)
  await archived(id, { from: null, until: '0/4000000', at: at(4) })
  expect(await needs(id)).toBe(true)
  await newBackup(id, 4, 'base')
  expect(await needs(id)).toBe(false)

  await archived(id, { from: null, until: '0/5000000', at: at(5), bytes: 600 })
  expect(await needs(id)).toBe(false)
  await archived(id, { from: null, until: '0/6000000', at: at(6), bytes: 600 })
  expect(await needs(id)).toBe(true)
  await resetStoredBytes(db, orgId, id)
  expect(await needs(id)).toBe(false)
})

test('bases beyond the number kept expire, and all of them with their database', async () => {
  const { db } = installation
  const [id, deleted] = [await newDatabase(), await newDatabase()]
  const oldest = await newBackup(id, 2, 'base')
  await newBackup(id, 3, 'base')
  await newBackup(id, 4, 'scheduled')
  const last = await newBackup(deleted, 2, 'base')
  const kept = await newBackup(deleted, 3, 'scheduled')
  await db`update keyhook.databases set status = 'deleted', deleted_at = now() where org_id = ${orgId} and id = ${deleted}`
  const expired = (await expiredBackups(db, 'here', 1)).map((row) => row.id)
  expect(expired).toEqual(expect.arrayContaining([oldest, last]))
  expect(expired).not.toContain(kept)
})

test('stored WAL counts toward the quota until the base that it follows is removed', async () => {
  const { db } = installation
  const before = await archivedBytes(db, orgId)
  const id = await newDatabase()
  const base = await newBackup(id, 2, 'base')
  await archived(id, { from: '0/2000000', until: '0/3000000', at: at(3), bytes: 100 })
  const counted = async () => (await archivedBytes(db, orgId)) - before
  expect(await counted()).toBe(101)
  await resetStoredBytes(db, orgId, id)
  await archived(id, { from: null, until: '0/4000000', at: at(4), bytes: 10 })
  expect(await counted()).toBe(111)
  await db`update keyhook.backups set status = 'deleted' where id = ${base}`
  expect(await counted()).toBe(10)
})
