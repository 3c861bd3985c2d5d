import { type Logger, pino } from 'pino'

/** JSON lines on standard error; standard output belongs to what commands answer. */
export const createLog = (level: string): Logger =>
  pino(
    { level, base: null, timestamp: createTimestamp(), serializers: { err: loggedError } },
    gathering(pino.destination({ fd: 2, sync: false })),
  )

const gatherMs = 100
const gatherLinesMax = 100

/** Lines go out together, a tenth of a second late at most: one by one they cost a busy dispatcher a sixth of its time. */
function gathering(destination: ReturnType<typeof pino.destination>): { write(line: string): void; flushSync(): void } {
  let lines: string[] = []
  const pass = () => {
    if (lines.length > 0) destination.write(lines.join(''))
    lines = []
  }
  const flushSync = () => {
    pass()
    destination.flushSync()
  }
  setInterval(pass, gatherMs).unref()
  // Before the destination's own listeners, which close it.
  process.prependOnceListener('beforeExit', pass)
  process.prependOnceListener('exit', flushSync)
  return {
    write(line) {
      lines.push(line)
      if (lines.length >= gatherLinesMax) pass()
    },
    flushSync,
  }
}

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

/** A busy dispatcher writes several lines a millisecond: they share what it is called. */
function createTimestamp(): () => string {
  let lastMs = 0
  let last = ''
  return () => {
    const ms = Date.now()
    if (ms !== lastMs) {
      lastMs = ms
      last = `,"time":"${new Date(ms).toISOString()}"`
    }
    return last
  }
}
