import type { EventType } from '../../domain/event-types.ts'
import type { EventData } from '../../domain/events.ts'
import { type IdPrefix, idPattern } from '../../kernel/ids.ts'
import { choice, chosen } from '../basis.ts'
import type { Json } from './openapi-node.ts'

const here = chosen(15)
const text = (description: string): Json => ({ type: 'string', description, ...here })
const whole = (description: string): Json => ({ type: 'integer', minimum: 0, description, ...here })
const id = (prefix: IdPrefix, description: string): Json => ({ ...text(description), pattern: idPattern(prefix) })

const databaseId = id('db', 'The database.')
const backupId = id('bak', 'The backup.')
const reason = {
  ...text('Why, in words for people.'),
  'x-chosen': [choice(68, 'Worded by us: nothing of the inside shows.')],
}

type Told = { [T in EventType]: { firesWhen: string; data: { [F in keyof EventData[T]]: Json } } }

/** What the published interface says of each event, and what we send with it. */
export const told: Told = {
  'database.created': {
    firesWhen: 'A database finishes provisioning successfully.',
    data: { database_id: databaseId, name: text('Its name.') },
  },
  'database.failed': {
    firesWhen: 'A database provisioning job fails.',
    data: { database_id: databaseId, name: text('Its name.'), reason },
  },
  'backup.completed': {
    firesWhen: 'A backup finishes successfully.',
    data: { backup_id: backupId, database_id: databaseId, size_bytes: whole('The size of the archive.') },
  },
  'backup.failed': {
    firesWhen: 'A backup job fails.',
    data: { backup_id: backupId, database_id: databaseId, reason },
  },
  'restore.completed': {
    firesWhen: 'A restore into a new database finishes successfully.',
    data: {
      restore_id: id('rst', 'The restore.'),
      backup_id: backupId,
      database_id: id('db', 'The new database.'),
    },
  },
  'invoice.paid': {
    firesWhen: 'An invoice is marked paid.',
    data: {
      invoice_id: id('inv', 'The invoice.'),
      month: text('The month it is for, such as `2026-01`.'),
      currency: text('ISO 4217.'),
      total_minor: whole('The sum, in minor units (cents).'),
      paid_at: { ...text('When it was marked paid.'), format: 'date-time' },
    },
  },
}
