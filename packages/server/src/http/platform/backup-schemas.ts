import Type from 'typebox'
import { backupStatuses } from '../../domain/backup.ts'
import { restoreStatuses } from '../../domain/restore.ts'
import { type Choice, choice, chosen, mark } from '../basis.ts'
import { pageQuery } from '../lists.ts'
import { createdAt, id, label, moment } from '../schemas.ts'
import { createdDatabase } from './database-schemas.ts'

const backup = chosen(56)
const restore = chosen(59)
type Basis = typeof backup

const givesUp = choice(65, '`failed` after the last of several tries.')
const worded = choice(68, 'Worded by us: nothing of the inside shows.')

const bytes = (basis: Basis, description: string) => mark(basis, Type.Integer({ minimum: 0, description }))
const maybeBytes = (basis: Basis, description: string) =>
  mark(basis, Type.Union([Type.Integer({ minimum: 0 }), Type.Null()], { description }))
const maybeText = (basis: Basis, description: string, ...choices: Choice[]) =>
  mark(basis, Type.Union([Type.String(), Type.Null()], { description }), ...choices)
const maybeMoment = (basis: Basis, description: string) =>
  mark(basis, Type.Union([moment(''), Type.Null()], { description }))

export const backupRecord = Type.Object(
  {
    id: mark(backup, id('bak', 'The <backup_id> of other paths.')),
    database_id: mark(backup, id('db', 'The database it was taken of, which may be gone by now.')),
    status: mark(
      backup,
      Type.Enum([...backupStatuses.slice(0, 4)], { description: 'Where it is in its life.' }),
      givesUp,
    ),
    origin: mark(
      backup,
      Type.Enum(['requested', 'scheduled'], { description: 'Whether a caller or the schedule started it.' }),
      choice(66, 'Only where the operator has set a schedule; only scheduled ones are ever removed by it.'),
    ),
    bytes_done: bytes(backup, 'Bytes of the database read so far.'),
    bytes_total: maybeBytes(backup, 'Bytes known so far; grows with the WAL that is written meanwhile.'),
    size_bytes: maybeBytes(backup, 'The size of the archive.'),
    sha256: maybeText(backup, 'The SHA-256 of the archive.', choice(58, 'A ustar archive in zstd.')),
    failure: maybeText(backup, 'Why there is none, when it failed.', worded),
    created_at: mark(backup, createdAt()),
    finished_at: maybeMoment(backup, 'When it completed or failed.'),
  },
  { $id: 'Backup', additionalProperties: false },
)

export const backupQuery = Type.Object(
  {
    ...pageQuery,
    database_id: Type.Optional(mark(backup, id('db', 'Only the backups of this database.'))),
  },
  { additionalProperties: false },
)

export const restoreRecord = Type.Object(
  {
    id: mark(restore, id('rst', 'The restore.')),
    backup_id: mark(
      restore,
      id('bak', 'What is restored.'),
      choice(143, 'For a restore to a time, where its log starts: not in the list of backups if nobody asked for it.'),
    ),
    database_id: mark(restore, id('db', 'The new database.')),
    to: maybeMoment(chosen(141), 'The time that it has the state of; null: that of the backup.'),
    status: mark(restore, Type.Enum([...restoreStatuses], { description: 'How it stands.' }), givesUp),
    bytes_done: bytes(restore, 'Bytes unpacked so far.'),
    bytes_total: maybeBytes(restore, 'Bytes in the archive, unpacked.'),
    failure: maybeText(restore, 'Why it failed, when it did.', worded),
    created_at: mark(restore, createdAt()),
    finished_at: maybeMoment(restore, 'When it completed or failed.'),
  },
  { $id: 'Restore', additionalProperties: false },
)

export const newRestore = Type.Object(
  {
    name: mark(restore, label('The name of the new database.', 'orders-copy')),
  },
  { $id: 'NewRestore', additionalProperties: false },
)

export const newRestoreToTime = Type.Object(
  {
    name: mark(chosen(141), label('The name of the new database.', 'orders-before')),
    to: mark(
      chosen(141),
      Type.String({
        maxLength: 40,
        format: 'date-time',
        description: 'The time, to the millisecond (RFC 3339), by the clock of the database.',
        examples: ['2026-01-31T12:00:00Z'],
      }),
    ),
  },
  { $id: 'NewRestoreToTime', additionalProperties: false },
)

export const createdRestore = Type.Object(
  { restore: mark(restore, restoreRecord), database: createdDatabase },
  { $id: 'CreatedRestore', additionalProperties: false },
)
