import { type Logger, pino } from 'pino'

/** JSON lines on standard error; standard output belongs to what commands answer. */
export const createLog = (level: string): Logger =>
  pino({ level, base: null, timestamp: pino.stdTimeFunctions.isoTime }, pino.destination({ fd: 2, sync: false }))
