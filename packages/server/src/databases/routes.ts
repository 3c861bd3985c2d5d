import type { FastifyInstance } from 'fastify'
import Type, { type TSchema } from 'typebox'
import { recordAudit } from '../access/audit.ts'
import type { Database, Transaction } from '../db/database.ts'
import type { HoldOrganization, PublishingTransaction, Transact } from '../db/publishing-transaction.ts'
import type { NewEvent } from '../delivery/events.ts'
import { chosen } from '../http/basis.ts'
import { listById, onlyPageQuery } from '../http/lists.ts'
import { type Created, type Route, route } from '../http/route.ts'
import { exampleTime, timestamp } from '../http/schemas.ts'
import type { PlatformJob } from '../jobs/queue.ts'
import { Fault, notFound } from '../lib/faults.ts'
import { newId, type OrgId } from '../lib/ids.ts'
import { isoTime } from '../lib/time.ts'
import {
  connectionString,
  mintDatabasePassword,
  moveDatabase,
  ownerDatabase,
  ownerRole,
  scramVerifier,
  databaseWasDeleted as wasDeleted,
} from './database.ts'
import { createdDatabase, databaseRecord, newDatabase } from './schemas.ts'
import {
  type DatabaseRow,
  type DatabaseStorage,
  findDatabase,
  insertDatabase,
  listDatabases,
  lockDatabase,
  markDatabaseCleared,
  markDatabaseRemoving,
} from './sql.ts'
import { endUsage, findActivity } from './usage-sql.ts'

const path = '/platform/v1/organizations/:orgId/databases'

/** Adds a job in the transaction of the request. */
export type Enqueue = (tx: Transaction, job: PlatformJob) => Promise<void>

export function databaseRoutes(deps: {
  db: Database
  holdOrganization: HoldOrganization
  transact: Transact
  enqueue: Enqueue
  publish(tx: PublishingTransaction, event: NewEvent): Promise<unknown>
  databasesPerOrgMax: number
  hasTls: boolean
  /** Why no WAL of the organization is stored; null if it is, or need not be. */
  recoveryProblem(orgId: OrgId): Promise<string | null>
}): Route[] {
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
      faults: ['limit.reached', 'not_found'],
      success: {
        status: 202,
        description: 'The database, being provisioned. Keep `password`.',
        schema: createdDatabase,
      },
      async handler({ orgId, userId, actor, body, once }) {
        const id = newId('db')
        const password = mintDatabasePassword()
        const passwordVerifier = await scramVerifier(password)
        const create = async (tx: PublishingTransaction): Promise<Created> => {
          const asked = { id, name: body.name, passwordVerifier, node: null, createdBy: userId }
          const inserted = await insertDatabase(tx, orgId, asked, deps.databasesPerOrgMax)
          if (inserted === null) throw tooManyDatabases(deps.databasesPerOrgMax)
          const details = { name: body.name }
          await recordAudit(tx, { orgId, action: 'database.created', actor, targetId: id, details })
          await deps.enqueue(tx, { kind: 'database.place', orgId, databaseId: id })
          const withoutSecrets = databaseOf(inserted)
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
      basis: chosen(50),
      tag: 'Databases',
      summary: 'List databases',
      description: 'The databases of the organization, newest first.',
      query: onlyPageQuery,
      faults: ['not_found'],
      success: { status: 200, description: 'The databases. Never `password`.', schema: Type.Array(databaseRecord) },
      async handler({ orgId }) {
        const problem = await deps.recoveryProblem(orgId)
        return listById(
          'db',
          (row: DatabaseRow & DatabaseStorage) => databaseOf(row, problem),
          (request) => listDatabases(deps.db, orgId, request),
        )
      },
    }),
    route({
      method: 'GET',
      path: `${path}/:databaseId`,
      needs: 'databases:read',
      audit: null,
      basis: chosen(50),
      tag: 'Databases',
      summary: 'Read a database',
      description: 'How to connect to it, once it is `available`.',
      faults: ['not_found'],
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
      basis: chosen(55),
      tag: 'Databases',
      summary: 'Delete a database',
      description:
        'Ends it, whatever it is doing: a backup that is being taken of it fails, and so does a database that is not available yet. It answers `deleting` until its processes and files are gone, and 404 from then on. Its backups stay.',
      faults: ['not_found'],
      success: { status: 202, description: 'The database, being deleted.', schema: databaseRecord },
      async handler({ orgId, actor, params: { databaseId: id } }) {
        const row = await deps.transact(async (tx) => {
          const database = await lockDatabase(tx, orgId, id)
          if (database === null || database.status === 'deleted') throw notFound(`${id} is not in ${orgId}`)
          const next = moveDatabase(database.status, 'remove')
          if (next === null) return database
          await markDatabaseRemoving(tx, orgId, id, next)
          await endUsage(tx, orgId, id)
          await recordAudit(tx, { orgId, action: 'database.deleted', actor, targetId: id })
          const { node, name, status } = database
          // Not placed yet, so nothing has to be removed; the job that would place it finds the row deleted.
          if (node === null) await markDatabaseCleared(tx, orgId, id, moveDatabase(next, 'clear')!)
          else await deps.enqueue(tx, { kind: 'database.remove', orgId, databaseId: id, node })
          // A receiver that waits for the outcome of the provisioning or restore gets one.
          const data = { database_id: id, name, reason: wasDeleted }
          const isProvisioning = moveDatabase(status, 'give_up') !== null
          if (isProvisioning) await deps.publish(tx, { orgId, type: 'database.failed', data })
          return { ...database, status: next }
        })
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

export const tooManyDatabases = (max: number): Fault =>
  new Fault('limit.reached', {
    public: `This organization has ${max} databases, the most it may have. Delete one first, failed ones count too.`,
  })

const here = chosen(112)
const nullable = (schema: TSchema, description: string) => Type.Union([schema, Type.Null()], { description })

const databaseStats = Type.Object(
  {
    size_bytes: nullable(Type.Integer(), 'Tables and indexes, without WAL: what `pg_database_size` says.'),
    connections: nullable(Type.Integer(), 'Open connections of its user.'),
    connections_max: nullable(Type.Integer(), 'The most connections that its user may have.'),
    at: nullable(timestamp('When its node looked.'), 'When its node looked, about every ten seconds.'),
  },
  {
    $id: 'DatabaseStats',
    additionalProperties: false,
    ...here,
    examples: [{ size_bytes: 8_134_656, connections: 3, connections_max: 55, at: exampleTime }],
  },
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

/** The authority that clients of databases trust. Without a token: it is public, and `curl` saves it as it is. */
export function addDatabaseCa(app: FastifyInstance, readCa: () => Promise<string | null>): void {
  app.get('/database-ca.pem', async (_request, reply) => {
    const pem = await readCa()
    if (pem === null) throw notFound('databases have no certificate authority of their own')
    return reply.type('application/x-pem-file').header('x-content-type-options', 'nosniff').send(pem)
  })
}
