import Type from 'typebox'
import { isoTime } from '../../kernel/iso-time.ts'
import type { RecoveryRow } from '../../store/delivery/recovery.ts'
import { chosen, mark } from '../basis.ts'
import { createdAt, id, moment } from '../schemas.ts'

const here = chosen(39)

export const recoveryRecord = Type.Object(
  {
    id: mark(here, id('rcv', 'The recovery.')),
    status: mark(here, Type.Enum(['running', 'finished'], { description: 'Whether everything has been put in line.' })),
    since: mark(here, moment('Events from here on.')),
    until: mark(here, moment('Events before this.')),
    redelivered: mark(here, Type.Integer({ minimum: 0, description: 'Deliveries put in line again so far.' })),
    created_at: mark(here, createdAt()),
    finished_at: mark(here, Type.Union([moment('When the last was put in line.'), Type.Null()])),
  },
  { $id: 'Recovery', additionalProperties: false },
)

export const recoveryRecordOf = (row: RecoveryRow) => ({
  id: row.id,
  status: row.finished_at === null ? 'running' : 'finished',
  since: isoTime(row.since),
  until: isoTime(row.until),
  redelivered: Number(row.redelivered),
  created_at: isoTime(row.created_at),
  finished_at: row.finished_at && isoTime(row.finished_at),
})
