import { createHash, createHmac, pbkdf2, randomBytes } from 'node:crypto'
import { promisify } from 'node:util'
import { randomBase62 } from '../lib/secrets.ts'

/* Null: the move does not apply. A step that runs twice gets null the second time. */
export const databaseStatuses = ['provisioning', 'available', 'failed', 'deleting', 'deleted'] as const
export type DatabaseStatus = (typeof databaseStatuses)[number]
/** `unreachable` is not stored: it is available, and its node is silent or says that its server does not run. */
export const shownDatabaseStatuses = ['provisioning', 'available', 'unreachable', 'failed', 'deleting'] as const
export const firstDatabaseStatus: DatabaseStatus = 'provisioning'

/** `serve`: it accepts connections. `give_up`: it failed for good. `remove`: its deletion was requested. `clear`: its files are deleted. */
export const databaseMoves = ['serve', 'give_up', 'remove', 'clear'] as const
export type DatabaseMove = (typeof databaseMoves)[number]

const table: Record<DatabaseStatus, Partial<Record<DatabaseMove, DatabaseStatus>>> = {
  provisioning: { serve: 'available', give_up: 'failed', remove: 'deleting' },
  available: { remove: 'deleting' },
  failed: { remove: 'deleting' },
  deleting: { clear: 'deleted' },
  deleted: {},
}

export const moveDatabase = (status: DatabaseStatus, move: DatabaseMove): DatabaseStatus | null =>
  table[status][move] ?? null

/** Of a database that moves to another node. It becomes `available` again without an event: it was provisioned before. */
export const movingStatus: DatabaseStatus = 'provisioning'

/** Why backups and restores of a deleted database failed. */
export const databaseWasDeleted = 'The database was deleted.'

/** Every instance has one role and one database, with these names. Tenants are separated by instances. */
export const ownerRole = 'app'
export const ownerDatabase = 'app'

/** Most sessions of the role, in all. It cannot raise its own limit. */
export const ownerConnectionsMax = 55

/** 190 random bits. */
export const mintDatabasePassword = (): string => randomBase62(32)

/** IPv6 addresses are in brackets (RFC 3986). `verify-full` is the one mode that means the same to every client: checked, or refused. */
export const connectionString = (host: string, port: number, { hasTls }: { hasTls: boolean }): string =>
  `postgres://${ownerRole}@${host.includes(':') ? `[${host}]` : host}:${port}/${ownerDatabase}${hasTls ? '?sslmode=verify-full' : ''}`

const iterations = 4_096
const saltBytes = 16

const hmac = (key: Buffer, text: string): Buffer => createHmac('sha256', key).update(text).digest()

/** A SCRAM verifier (RFC 5803), so that the password is stored nowhere. For ASCII passwords only, which SASLprep does not change. */
export async function scramVerifier(password: string, salt: Buffer = randomBytes(saltBytes)): Promise<string> {
  const salted = await promisify(pbkdf2)(password, salt, iterations, 32, 'sha256')
  const storedKey = createHash('sha256').update(hmac(salted, 'Client Key')).digest('base64')
  const serverKey = hmac(salted, 'Server Key').toString('base64')
  return `SCRAM-SHA-256$${iterations}:${salt.toString('base64')}$${storedKey}:${serverKey}`
}

export const isScramVerifier = (text: string): boolean =>
  /^SCRAM-SHA-256\$\d+:[A-Za-z0-9+/=]+\$[A-Za-z0-9+/=]+:[A-Za-z0-9+/=]+$/.test(text)
