import { afterAll, beforeAll, expect, test } from 'vitest'
import { firstBackupStatus, firstRestoreStatus } from '../../src/backups/backup.ts'
import {
  findRestore,
  insertBackup,
  insertRestore,
  lockBackup,
  markBackupCompleted,
  markBackupGivenUp,
  markRestoreCompleted,
  markRestoreGivenUp,
  setBackupStatus,
} from '../../src/backups/sql.ts'
import { firstInvoiceStatus } from '../../src/billing/invoice.ts'
import { insertInvoice, markInvoicePaid } from '../../src/billing/sql.ts'
import { firstDatabaseStatus } from '../../src/databases/database.ts'
import {
  insertDatabase,
  lockDatabase,
  markDatabaseCleared,
  markDatabaseGivenUp,
  markDatabaseRemoving,
  markDatabaseServing,
} from '../../src/databases/sql.ts'
import type { Transaction } from '../../src/db/database.ts'
import { newId, type OrgId, type UserId } from '../../src/lib/ids.ts'
import type { Installation } from '../../src/startup/open.ts'
import { createOwnedInstallation } from '../kit/installation.ts'

let installation: Installation
let orgId: OrgId
let userId: UserId
beforeAll(async () => {
  ;({ installation, orgId, userId } = await createOwnedInstallation())
})
afterAll(() => installation.close())

async function make(tx: Transaction) {
  const databaseId = newId('db')
  const asked = { id: databaseId, name: 'shop', passwordVerifier: '', node: 'here', createdBy: userId }
  const database = await insertDatabase(tx, orgId, asked, 100)
  const backupId = newId('bak')
  const taken = { id: backupId, databaseId, node: 'here', origin: 'requested' as const, createdBy: userId }
  const backup = await insertBackup(tx, orgId, taken)
  const restoreId = newId('rst')
  const into = { id: restoreId, backupId, databaseId, to: null, bytesTotal: null, createdBy: userId }
  const restore = await insertRestore(tx, orgId, into)
  const statuses = { database: database?.status, backup: backup.status, restore: restore.status }
  return { databaseId, backupId, restoreId, statuses }
}

const bill = (tx: Transaction, month: string) =>
  insertInvoice(tx, orgId, { id: newId('inv'), month, currency: 'EUR', totalMinor: 1 })

test('a new row has the first status of its lifecycle', async () => {
  await installation.db.begin(async (tx) => {
    const { statuses } = await make(tx)
    const invoice = await bill(tx, '2025-12')
    expect({ ...statuses, invoice: invoice?.status }).toEqual({
      database: firstDatabaseStatus,
      backup: firstBackupStatus,
      restore: firstRestoreStatus,
      invoice: firstInvoiceStatus,
    })
  })
})

// Each is handed a status that is not its usual one: a store with a word of its own would write that.
test('every stored status is one that the lifecycle names', async () => {
  await installation.db.begin(async (tx) => {
    const { databaseId, backupId, restoreId } = await make(tx)
    const database = async () => (await lockDatabase(tx, orgId, databaseId))?.status
    await markDatabaseServing(tx, orgId, databaseId, 'failed', { host: 'localhost', port: 1 })
    expect(await database()).toBe('failed')
    await markDatabaseGivenUp(tx, orgId, databaseId, 'deleting', '')
    expect(await database()).toBe('deleting')
    await markDatabaseRemoving(tx, orgId, databaseId, 'available')
    expect(await database()).toBe('available')

    const backup = async () => (await lockBackup(tx, orgId, backupId))?.status
    const wal = { start_lsn: '0/0', stop_lsn: '0/0', stopped_at: null }
    await markBackupCompleted(tx, orgId, backupId, 'failed', {
      bytes: 1,
      sha256: '',
      keyId: null,
      contentBytes: 1,
      wal,
    })
    expect(await backup()).toBe('failed')
    await markBackupGivenUp(tx, orgId, backupId, 'completed', '')
    expect(await backup()).toBe('completed')
    await setBackupStatus(tx, orgId, backupId, 'deleting')
    expect(await backup()).toBe('deleting')

    const restore = async () => (await findRestore(tx, orgId, restoreId))?.status
    await markRestoreCompleted(tx, orgId, restoreId, 'failed')
    expect(await restore()).toBe('failed')
    await markRestoreGivenUp(tx, orgId, restoreId, 'completed', '')
    expect(await restore()).toBe('completed')
  })
})

test('a deletion or payment time is stored with no other status', async () => {
  const { db } = installation
  const cleared = db.begin(async (tx) => {
    const { databaseId } = await make(tx)
    await markDatabaseRemoving(tx, orgId, databaseId, 'deleting')
    await markDatabaseCleared(tx, orgId, databaseId, 'failed')
  })
  await expect(cleared).rejects.toThrow('databases_check2')
  const paid = db.begin(async (tx) => {
    const invoice = await bill(tx, '2026-01')
    return markInvoicePaid(tx, orgId, invoice!.id, 'issued')
  })
  await expect(paid).rejects.toThrow('invoices_check')
})
