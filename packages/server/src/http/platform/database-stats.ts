import Type, { type TSchema } from 'typebox'
import type { Database } from '../../db/database.ts'
import { notFound } from '../../kernel/faults.ts'
import { isoTime } from '../../kernel/iso-time.ts'
import { findActivity } from '../../store/platform/activity.ts'
import { chosen } from '../basis.ts'
import { type Route, route } from '../route.ts'
import { moment } from '../schemas.ts'

const here = chosen(112)
const nullable = (schema: TSchema, description: string) => Type.Union([schema, Type.Null()], { description })

const databaseStats = Type.Object(
  {
    size_bytes: nullable(Type.Integer(), 'Tables and indexes, without WAL: what `pg_database_size` says.'),
    connections: nullable(Type.Integer(), 'Open connections of its user.'),
    connections_max: nullable(Type.Integer(), 'The most connections that its user may have.'),
    at: nullable(moment('When its node looked.'), 'When its node looked, about every ten seconds.'),
  },
  { $id: 'DatabaseStats', additionalProperties: false, ...here },
)

/** What a database does right now, as its node has written it down. */
export function databaseStatsRoutes({ db }: { db: Database }): Route[] {
  return [
    route({
      method: 'GET',
      path: '/platform/v1/organizations/:orgId/databases/:databaseId/stats',
      needs: 'databases:read',
      audit: null,
      basis: here,
      tag: 'Databases',
      summary: 'Read the size and the connections of a database',
      description: 'All fields are null while the database does not run, and for its first seconds.',
      faults: ['not_found'],
      success: { status: 200, description: 'What its node saw last.', schema: databaseStats },
      async handler({ orgId, params: { databaseId } }) {
        const row = await findActivity(db, orgId, databaseId)
        if (row === null) throw notFound(`${databaseId} is not in ${orgId}`)
        return { status: 200, body: { ...row, at: row.at && isoTime(row.at) } }
      },
    }),
  ]
}
