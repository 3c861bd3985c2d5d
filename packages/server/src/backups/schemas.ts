import Type from 'typebox'
import { createdDatabase, orNull } from '../databases/schemas.ts'
import { choice, chosen, mark, withChoices } from '../http/basis.ts'
import { pageQuery } from '../http/lists.ts'
import { createdAt, id, label, nullable, timestamp } from '../http/schemas.ts'
import { isoTime } from '../lib/time.ts'
import { backupStatuses, restoreStatuses } from './backup.ts'
import type { BackupRow, RestoreRow } from './sql.ts'

const restore = chosen(59)

const givesUp = choice(65, '`failed` after the last of several tries.')
const worded = choice(68, 'Worded by us: nothing of the inside shows.')

const bytes = (description: string) => Type.Integer({ minimum: 0, description })
const maybeBytes = (description: string) => orNull(Type.Integer({ minimum: 0 }), description)
const maybeTime = (description: string) => orNull(timestamp(''), description)

export const backupRecord = Type.Object(
  {
    id: id('bak', 'The <backup_id> of other paths.'),
    database_id: id('db', 'The database it was taken of, which may be gone by now.'),
    status: withChoices(
      Type.Enum([...backupStatuses.slice(0, 4)], { description: 'Where it is in its life.' }),
      givesUp,
    ),
    origin: withChoices(
      Type.Enum(['requested', 'scheduled'], { description: 'Whether a caller or the schedule started it.' }),
      choice(66, 'Only where the operator has set a schedule; only scheduled ones are ever removed by it.'),
    ),
    bytes_done: bytes('Bytes of the database read so far.'),
    bytes_total: maybeBytes('Bytes known so far; grows with the WAL that is written meanwhile.'),
    size_bytes: maybeBytes('The size of the archive.'),
    sha256: orNull(Type.String(), 'The SHA-256 of the archive.', choice(58, 'A ustar archive in zstd.')),
    failure: orNull(Type.String(), 'Why there is none, when it failed.', worded),
    created_at: createdAt(),
    finished_at: maybeTime('When it completed or failed.'),
  },
  { $id: 'Backup', additionalProperties: false, ...chosen(56) },
)

export const backupOf = (row: BackupRow) => ({
  id: row.id,
  database_id: row.database_id,
  status: row.status,
  origin: row.origin,
  bytes_done: row.bytes_done,
  bytes_total: row.bytes_total,
  size_bytes: row.size_bytes,
  sha256: row.sha256,
  failure: row.failure,
  created_at: isoTime(row.created_at),
  finished_at: row.finished_at && isoTime(row.finished_at),
})

export const backupQuery = Type.Object(
  {
    ...pageQuery,
    database_id: Type.Optional(id('db', 'Only the backups of this database.')),
  },
  { additionalProperties: false },
)

export const restoreRecord = Type.Object(
  {
    id: id('rst', 'The restore.'),
    backup_id: withChoices(
      id('bak', 'What is restored.'),
      choice(
        143,
        'For a restore to a time, where its write-ahead log starts: not in the list of backups if nobody asked for it.',
      ),
    ),
    database_id: id('db', 'The new database.'),
    to: mark(chosen(141), maybeTime('The time that it has the state of; null: that of the backup.')),
    status: withChoices(Type.Enum([...restoreStatuses], { description: 'How it stands.' }), givesUp),
    bytes_done: bytes('Bytes unpacked so far.'),
    bytes_total: maybeBytes('Bytes in the archive, unpacked.'),
    failure: orNull(Type.String(), 'Why it failed, when it did.', worded),
    created_at: createdAt(),
    finished_at: maybeTime('When it completed or failed.'),
  },
  { $id: 'Restore', additionalProperties: false, ...restore },
)

export const restoreOf = (row: RestoreRow) => ({
  id: row.id,
  backup_id: row.backup_id,
  database_id: row.database_id,
  to: row.recover_to && isoTime(row.recover_to),
  status: row.status,
  bytes_done: row.bytes_done,
  bytes_total: row.bytes_total,
  failure: row.failure,
  created_at: isoTime(row.created_at),
  finished_at: row.finished_at && isoTime(row.finished_at),
})

export const newRestore = Type.Object(
  {
    name: label('The name of the new database.', 'orders-copy'),
  },
  { $id: 'NewRestore', additionalProperties: false, ...restore },
)

export const newRestoreToTime = Type.Object(
  {
    name: label('The name of the new database.', 'orders-before'),
    to: Type.String({
      maxLength: 40,
      format: 'date-time',
      description: 'The time, to the millisecond (RFC 3339), by the clock of the database.',
      examples: ['2026-01-31T12:00:00Z'],
    }),
  },
  { $id: 'NewRestoreToTime', additionalProperties: false, ...chosen(141) },
)

export const createdRestore = Type.Object(
  { restore: restoreRecord, database: createdDatabase },
  { $id: 'CreatedRestore', additionalProperties: false, ...restore },
)

/** Null: the operator's setting. */
export const backupSchedule = Type.Object(
  {
    every_hours: nullable(
      Type.Integer({
        minimum: 1,
        maximum: 8_760,
        examples: [24],
        description: "Hours between backups; null: the operator's setting.",
      }),
    ),
    keep: nullable(
      Type.Integer({
        minimum: 1,
        maximum: 1_000,
        examples: [7],
        description: "How many scheduled backups are kept; null: the operator's setting.",
      }),
    ),
  },
  { $id: 'DatabaseBackupSchedule', additionalProperties: false, ...chosen(105) },
)

export const backupScheduleInForce = Type.Object(
  {
    ...backupSchedule.properties,
    in_force: mark(
      chosen(190),
      Type.Object(
        {
          every_hours: nullable(
            Type.Integer({ minimum: 1, description: 'Hours between scheduled backups; null: none are made.' }),
          ),
          keep: Type.Integer({ minimum: 1, description: 'How many scheduled backups are kept.' }),
          next_at: nullable(
            timestamp('When the next one is due; null without a schedule, and before the first backup.'),
          ),
        },
        { additionalProperties: false, description: 'What counts for this database now.' },
      ),
    ),
  },
  { $id: 'DatabaseBackupScheduleInForce', additionalProperties: false, ...chosen(105) },
)
