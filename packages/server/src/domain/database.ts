import { randomBase62 } from './base62.ts'

/*
 * The life of a database. Every pair of a status and a move has an answer: the next status, or null for a move that does
 * not apply (any more), which is how a step that runs twice finds out that it has nothing left to do. The next status is
 * what is stored: whoever makes the move hands it to the store, which names none of its own.
 * A new row has the first.
 */
export const databaseStatuses = ['provisioning', 'available', 'failed', 'deleting', 'deleted'] as const
export type DatabaseStatus = (typeof databaseStatuses)[number]
export const firstDatabaseStatus: DatabaseStatus = 'provisioning'

/** `serve`: it accepts connections. `give_up`: it never will. `remove`: somebody asked for its end. `clear`: nothing is left of it. */
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

/** Why what was under way for a database has failed. */
export const databaseWasDeleted = 'The database was deleted.'

/** Everything inside an instance belongs to one role and one database of these names; the instance tells tenants apart. */
export const ownerRole = 'app'
export const ownerDatabase = 'app'

/** 190 random bits. */
export const mintDatabasePassword = (): string => randomBase62(32)

/** What a client needs beside the password. An IPv6 address stands in brackets (RFC 3986). */
export const connectionString = (host: string, port: number): string =>
  `postgres://${ownerRole}@${host.includes(':') ? `[${host}]` : host}:${port}/${ownerDatabase}`
