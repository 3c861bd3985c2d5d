import type { EventType } from './event-types.ts'
import type { EventData } from './events.ts'

const database_id = 'db_00000000000000000000000000'
const backup_id = 'bak_00000000000000000000000000'

/** Data of test events: the real shape, with ids that do not exist. */
const samples: EventData = {
  'database.created': { database_id, name: 'sample' },
  'database.failed': { database_id, name: 'sample', reason: 'This is a sample.' },
  'backup.completed': { backup_id, database_id, size_bytes: 1_048_576 },
  'backup.failed': { backup_id, database_id, reason: 'This is a sample.' },
  'restore.completed': { restore_id: 'rst_00000000000000000000000000', backup_id, database_id },
  'invoice.paid': {
    invoice_id: 'inv_00000000000000000000000000',
    month: '2026-01',
    currency: 'EUR',
    total_minor: 1_000,
    paid_at: '2026-02-01T00:00:00.000Z',
  },
}

export const sampleData = (type: EventType): object => samples[type]
