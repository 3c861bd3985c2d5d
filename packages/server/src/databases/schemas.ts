import Type from 'typebox'
import { type Choice, choice, chosen, mark, withChoices } from '../http/basis.ts'
import { createdAt, exampleId, exampleTime, id, label, timestamp } from '../http/schemas.ts'
import { shownDatabaseStatuses } from './database.ts'
import { storageStates } from './storage-rules.ts'

const here = chosen(51)

export const orNull = <T extends Parameters<typeof Type.Union>[0][number]>(
  schema: T,
  description: string,
  ...choices: Choice[]
) => withChoices(Type.Union([schema, Type.Null()], { description }), ...choices)

const inside = choice(54, 'Always `app`; it is no superuser.')

export const newDatabase = Type.Object(
  { name: label('A label for people.', 'orders') },
  { $id: 'NewDatabase', additionalProperties: false, ...here },
)

const storage = () =>
  Type.Object(
    {
      used_bytes: Type.Integer({
        description: 'Bytes on disk, with WAL and temporary files, when they were measured last.',
      }),
      limit_bytes: Type.Integer({ description: 'The most it may use.' }),
      state: withChoices(
        Type.Enum([...storageStates], {
          description: '`read_only` near the limit, or while the disk of its node is nearly full; `stopped` beyond it.',
        }),
        choice(126, 'A session can switch `read_only` off to make room.'),
      ),
      message: orNull(Type.String(), 'Why it is not `normal`, and what to do.'),
      measured_at: timestamp('When it was measured.'),
    },
    { additionalProperties: false },
  )

const shown = () => ({
  id: id('db', 'The <database_id> of other paths.'),
  name: Type.String({ description: 'A label for people.', examples: ['orders'] }),
  status: mark(
    chosen(53),
    Type.Enum([...shownDatabaseStatuses], {
      description:
        'Where it is in its life. `unreachable` while its node is silent or its server does not run; it becomes `available` again by itself.',
    }),
    choice(65, '`failed` after the last of several tries.'),
  ),
  host: orNull(Type.String(), 'Where it accepts connections; null until it does.', choice(67, 'On the emptiest node.')),
  port: orNull(Type.Integer(), 'The port there.'),
  user: withChoices(Type.String({ description: 'The role that owns everything in it.', examples: ['app'] }), inside),
  database: withChoices(
    Type.String({ description: 'The name that clients connect to.', examples: ['app'] }),
    choice(54, 'Always `app`.'),
  ),
  connection_string: orNull(
    Type.String(),
    'All of the above in one line, without the password.',
    choice(
      130,
      'With `sslmode=verify-full` unless the operator has switched TLS off. `/database-ca.pem` has the authority to trust.',
    ),
  ),
  storage: mark(chosen(125), orNull(storage(), 'Its disk; null until that was measured.')),
  failure: orNull(
    Type.String(),
    'Why there is none, when it failed.',
    choice(68, 'Worded by us: nothing of the inside shows.'),
  ),
  recovery_window: mark(
    chosen(141),
    orNull(
      Type.Object(
        {
          from: timestamp('The first of these times.'),
          to: timestamp('The last of them; it moves on all the time.'),
        },
        { additionalProperties: false },
      ),
      'The times that it can be restored to; null if there are none.',
    ),
  ),
  recovery_problem: mark(
    chosen(165),
    orNull(Type.String(), 'Why `recovery_window` does not move on, and what to do; null while it does.'),
  ),
  created_at: createdAt(),
})

const password = () =>
  mark(
    chosen(52),
    Type.String({
      pattern: '^[0-9A-Za-z]{32}$',
      description: 'The password of `user`. Shown once, kept nowhere.',
      examples: ['ExampleExampleExampleExample0000'],
    }),
    choice(96, 'Absent if the answer is a repetition (`Idempotency-Replayed`).'),
  )

const available = {
  id: exampleId('db'),
  name: 'orders',
  status: 'available',
  host: '127.0.0.1',
  port: 5433,
  user: 'app',
  database: 'app',
  connection_string: 'postgres://app@127.0.0.1:5433/app?sslmode=verify-full',
  storage: null,
  failure: null,
  recovery_window: { from: '2026-01-24T12:00:00.000Z', to: exampleTime },
  recovery_problem: null,
  created_at: exampleTime,
}

export const databaseRecord = Type.Object(shown(), {
  $id: 'Database',
  additionalProperties: false,
  ...here,
  examples: [available],
})

export const createdDatabase = Type.Object(
  { ...shown(), password: Type.Optional(password()) },
  { $id: 'CreatedDatabase', additionalProperties: false, ...here },
)
