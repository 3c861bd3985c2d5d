import type { FastifyInstance } from 'fastify'
import Type from 'typebox'
import type { Database, HoldOrganization, Transact, Transaction } from '../db/database.ts'
import { chosen } from '../http/basis.ts'
import { listById, onlyPageQuery } from '../http/lists.ts'
import { type Created, type Route, route } from '../http/route.ts'
import { exampleTime, timestamp } from '../http/schemas.ts'
import { notFound } from '../lib/faults.ts'
import type { OrgId } from '../lib/ids.ts'
import { isoTime } from '../lib/time.ts'
import { connectionString, ownerDatabase, ownerRole } from './database.ts'
import { type CreationDeps, createDatabase, deleteDatabase, newDatabaseSecret } from './rules.ts'
import { createdDatabase, databaseRecord, newDatabase, orNull } from './schemas.ts'
import { type DatabaseRow, type DatabaseStorage, findDatabase, listDatabases, type ShownDatabase } from './sql.ts'
import { findActivity, findHistory } from './usage-sql.ts'

const path = '/platform/v1/organizations/:orgId/databases'

export function databaseRoutes(
  deps: CreationDeps & {
    db: Database
    holdOrganization: HoldOrganization
    transact: Transact
    hasTls: boolean
    /** Why no WAL of the organization is stored; null if it is, or need not be. */
    recoveryProblem(orgId: OrgId): Promise<string | null>
  },
): Route[] {
  const databaseOf = createDatabaseOf(deps)
  return [
    route({
      method: 'POST',
      path,
      needs: 'databases:create',
      audit: 'database.created',
      basis: chosen(50),
      tag: 'Databases',
      summary: 'Create a database',
      description:
        'Begins to provision a PostgreSQL of its own. `password` is shown here and never again. `database.created` follows when it accepts connections, `database.failed` when it never will.',
      body: newDatabase,
      faults: ['limit.reached'],
      success: {
        status: 202,
        description: 'The database, being provisioned. Keep `password`.',
        schema: createdDatabase,
      },
      async handler({ orgId, userId, actor, body: { name }, once }) {
        const { password, passwordVerifier } = await newDatabaseSecret()
        const create = async (tx: Transaction): Promise<Created> => {
          const withoutSecrets = databaseOf(
            await createDatabase(tx, deps, { orgId, userId, actor, name, passwordVerifier }),
          )
          return { status: 202, body: { ...withoutSecrets, password }, withoutSecrets }
        }
        return deps.holdOrganization(orgId, (tx) => once(tx, () => create(tx)))
      },
    }),
    route({
      method: 'GET',
      path,
      needs: 'databases:read',
      audit: null,
      isForDatabaseKeys: true,
      basis: chosen(50),
      tag: 'Databases',
      summary: 'List databases',
      description: 'The databases of the organization, newest first.',
      query: onlyPageQuery,
      success: { status: 200, description: 'The databases. Never `password`.', schema: Type.Array(databaseRecord) },
      async handler({ orgId, databases }) {
        const problem = await deps.recoveryProblem(orgId)
        const record = (row: ShownDatabase) => databaseOf(row, problem)
        return listById('db', record, (request) => listDatabases(deps.db, orgId, databases, request))
      },
    }),
    route({
      method: 'GET',
      path: `${path}/:databaseId`,
      needs: 'databases:read',
      audit: null,
      isForDatabaseKeys: true,
      basis: chosen(50),
      tag: 'Databases',
      summary: 'Read a database',
      description: 'How to connect to it, once it is `available`.',
      success: { status: 200, description: 'The database.', schema: databaseRecord },
      async handler({ orgId, params: { databaseId: id } }) {
        const row = await findDatabase(deps.db, orgId, id)
        if (row === null) throw notFound(`${id} is not in ${orgId}`)
        return { status: 200, body: databaseOf(row, await deps.recoveryProblem(orgId)) }
      },
    }),
    route({
      method: 'DELETE',
      path: `${path}/:databaseId`,
      needs: 'databases:delete',
      audit: 'database.deleted',
      isForDatabaseKeys: true,
      basis: chosen(55),
      tag: 'Databases',
      summary: 'Delete a database',
      description:
        'Ends it, whatever it is doing: a backup that is being taken of it fails, and so does a database that is not available yet. It answers `deleting` until its processes and files are gone, and 404 from then on. Its backups stay.',
      success: { status: 202, description: 'The database, being deleted.', schema: databaseRecord },
      async handler({ orgId, actor, params: { databaseId: id } }) {
        const row = await deps.transact((tx) => deleteDatabase(tx, deps, { orgId, id, actor }))
        return { status: 202, body: databaseOf(row) }
      },
    }),
  ]
}

/** The address is shown once the database accepts connections. It stays the same while its server is away. */
export const createDatabaseOf =
  (tls: { hasTls: boolean }) =>
  (row: DatabaseRow & Partial<DatabaseStorage>, recoveryProblem: string | null = null) => {
    const up = row.status === 'available' && row.host !== null && row.port !== null
    return {
      id: row.id,
      name: row.name,
      status: row.status === 'available' && row.is_reachable === false ? ('unreachable' as const) : row.status,
      host: up ? row.host : null,
      port: up ? row.port : null,
      user: ownerRole,
      database: ownerDatabase,
      connection_string: up ? connectionString(row.host!, row.port!, tls) : null,
      storage: up ? storageOf(row) : null,
      failure: row.failure,
      recovery_window:
        row.recovery_from && row.recovery_to
          ? { from: isoTime(row.recovery_from), to: isoTime(row.recovery_to) }
          : null,
      recovery_problem: up ? recoveryProblem : null,
      created_at: isoTime(row.created_at),
    }
  }

function storageOf(row: Partial<DatabaseStorage>) {
  if (!row.measured_at) return null
  return {
    used_bytes: row.storage_used_bytes,
    limit_bytes: row.storage_limit_bytes,
    state: row.storage_state,
    message: row.storage_message,
    measured_at: isoTime(row.measured_at),
  }
}

const here = chosen(112)

const databaseStats = Type.Object(
  {
    size_bytes: orNull(Type.Integer(), 'Tables and indexes, without WAL: what `pg_database_size` says.'),
    connections: orNull(Type.Integer(), 'Open connections of its user.'),
    connections_max: orNull(Type.Integer(), 'The most connections that its user may have.'),
    at: orNull(timestamp('When its node looked.'), 'When its node looked, about every ten seconds.'),
  },
  {
    $id: 'DatabaseStats',
    additionalProperties: false,
    ...here,
    examples: [{ size_bytes: 8_134_656, connections: 3, connections_max: 55, at: exampleTime }],
  },
)

const databaseUsage = Type.Object(
  {
    hours: Type.Array(
      Type.Object(
        {
          at: timestamp('When the hour began.'),
          size_bytes: Type.Integer({ description: 'The largest size in the hour.' }),
          connections: Type.Integer({ description: 'The most connections at a time.' }),
        },
        { additionalProperties: false },
      ),
      { description: 'At most 168 hours.' },
    ),
  },
  { $id: 'DatabaseUsage', additionalProperties: false, ...chosen(190) },
)

/** What a database does now and did in the last days, as its node has written it down. */
export function databaseStatsRoutes({ db }: { db: Database }): Route[] {
  return [
    route({
      method: 'GET',
      path: '/platform/v1/organizations/:orgId/databases/:databaseId/stats',
      needs: 'databases:read',
      audit: null,
      isForDatabaseKeys: true,
      basis: here,
      tag: 'Databases',
      summary: 'Read the size and the connections of a database',
      description: 'All fields are null while the database does not run, and for its first seconds.',
      success: { status: 200, description: 'What its node saw last.', schema: databaseStats },
      async handler({ orgId, params: { databaseId } }) {
        const row = await findActivity(db, orgId, databaseId)
        if (row === null) throw notFound(`${databaseId} is not in ${orgId}`)
        return { status: 200, body: { ...row, at: row.at && isoTime(row.at) } }
      },
    }),
    route({
      method: 'GET',
      path: '/platform/v1/organizations/:orgId/databases/:databaseId/usage',
      needs: 'databases:read',
      audit: null,
      isForDatabaseKeys: true,
      basis: chosen(190),
      tag: 'Databases',
      summary: 'Read the size and the connections of a database over seven days',
      description:
        'One entry for each hour in which the database was measured. Those in which it did not run are left out.',
      success: { status: 200, description: 'The hours, oldest first.', schema: databaseUsage },
      async handler({ orgId, params: { databaseId } }) {
        const hours = await findHistory(db, orgId, databaseId)
        if (hours === null) throw notFound(`${databaseId} is not in ${orgId}`)
        return { status: 200, body: { hours: hours.map((row) => ({ ...row, at: isoTime(row.at) })) } }
      },
    }),
  ]
}

/** The authority that clients of databases trust. Without a token: it is public, and `curl` saves it as it is. */
export function addDatabaseCa(app: FastifyInstance, readCa: () => Promise<string | null>): void {
  app.get('/database-ca.pem', async (_request, reply) => {
    const pem = await readCa()
    if (pem === null) throw notFound('databases have no certificate authority of their own')
    return reply.type('application/x-pem-file').header('x-content-type-options', 'nosniff').send(pem)
  })
}
