import { type Logger, pino } from 'pino'

/**
 * JSON lines on standard error; standard output belongs to what commands answer. Lines gather for a moment: a write for
 * each one cost a busy dispatcher a sixth of its time.
 */
export const createLog = (level: string): Logger =>
  pino(
    { level, base: null, timestamp: pino.stdTimeFunctions.isoTime, serializers: { err: loggedError } },
    pino.destination({ fd: 2, sync: false, minLength: 4_096, periodicFlush: 100 }),
  )

/**
 * What a line says of an error, and no more. Libraries hang whole clients on theirs, with passwords and endless state, and
 * PostgreSQL's details quote the row.
 */
export function loggedError(error: unknown): unknown {
  if (!(error instanceof Error)) return error
  return {
    type: error.name,
    message: error.message,
    code: 'code' in error ? error.code : undefined,
    stack: error.stack,
    cause: error.cause === undefined ? undefined : loggedError(error.cause),
  }
}
