import { type Logger, pino } from 'pino'

/**
 * JSON lines on standard error; standard output belongs to what commands answer. Lines gather for a moment: a write for
 * each one cost a busy dispatcher a sixth of its time.
 */
export const createLog = (level: string): Logger =>
  pino(
    { level, base: null, timestamp: pino.stdTimeFunctions.isoTime },
    pino.destination({ fd: 2, sync: false, minLength: 4_096, periodicFlush: 100 }),
  )
