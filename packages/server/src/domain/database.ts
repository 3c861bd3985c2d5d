import { randomBase62 } from './base62.ts'

/*
 * States of a database. Every pair of status and move has a result: the next status, or null if the move does not apply. A step that
 * runs twice gets null the second time.
 */
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

/**
 * All that a client needs except the password. IPv6 addresses are in brackets (RFC 3986). `verify-full` is the one mode that
 * means the same to every client: checked, or refused.
 */
export const connectionString = (host: string, port: number, { hasTls }: { hasTls: boolean }): string =>
  `postgres://${ownerRole}@${host.includes(':') ? `[${host}]` : host}:${port}/${ownerDatabase}${hasTls ? '?sslmode=verify-full' : ''}`
