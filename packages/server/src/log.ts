import { type Logger, pino } from 'pino'

/** JSON lines on standard error; standard output belongs to what commands answer. */
export const createLog = (level: string): Logger =>
  pino({ level, base: null, timestamp: createTimestamp(), serializers: { err: loggedError } }, createDestination())

/** Lines of one level that their writer has put together: all but its level and time. */
export type LineLog = { isOn(): boolean; write(fields: string): void }

/** For who writes thousands of lines a second. They go where all others go. */
export function linesOf(log: Logger, level: 'info'): LineLog {
  const destination = Reflect.get(log, pino.symbols.streamSym) as { write(line: string): void }
  const head = `{"level":${pino.levels.values[level]}`
  const timestamp = createTimestamp()
  return {
    isOn: () => log.isLevelEnabled(level),
    write: (fields) => destination.write(`${head}${timestamp()},${fields}}\n`),
  }
}

const gatherMs = 100
const gatherLinesMax = 100
/** Lines that nobody reads are kept up to here. What comes then is lost, and counted: a full pipe must not fill the memory. */
const waitingBytesMax = 16 * 1024 * 1024
/** How often the last lines are tried, a tenth of a second apart, when the process ends and nobody reads. */
const lastTries = 20

/** Lines go out together, a tenth of a second late at most: one by one they cost a busy dispatcher a sixth of its time. */
function createDestination(): { write(line: string): void; flushSync(): void } {
  let lines: string[] = []
  let lost = 0
  let triesLeft = Number.POSITIVE_INFINITY
  const retryEAGAIN = () => {
    triesLeft -= 1
    return triesLeft >= 0
  }
  const destination = pino.destination({ fd: 2, sync: false, maxLength: waitingBytesMax, retryEAGAIN })
  let isTaken = true
  destination.on('drop', () => {
    isTaken = false
  })
  // A full disk, mostly. What it did not take is written again with the next lines, and nothing else stops for it.
  let isRefused = false
  destination.on('error', () => {
    isRefused = true
  })
  destination.on('write', () => {
    isRefused = false
  })
  const pass = () => {
    if (lines.length === 0) return
    const given = lost === 0 ? lines : [lossOf(lost), ...lines]
    isTaken = true
    destination.write(given.join(''))
    lost = isTaken ? 0 : lost + lines.length
    lines = []
  }
  const flushSync = () => {
    pass()
    destination.flushSync()
  }
  setInterval(pass, gatherMs).unref()
  // Before the destination's own listeners, which close it.
  process.prependOnceListener('beforeExit', pass)
  process.prependOnceListener('exit', () => {
    triesLeft = lastTries
    try {
      // It would try for ever, and so would pino behind us: only of a slow reader they let themselves be told when to give up.
      if (isRefused) destination.destroy()
      else flushSync()
    } catch {
      // Nobody reads, and nobody can be told.
    }
  })
  return {
    write(line) {
      lines.push(line)
      if (lines.length >= gatherLinesMax) pass()
    },
    flushSync,
  }
}

const lossOf = (lines: number): string =>
  `${JSON.stringify({ level: pino.levels.values.warn, time: new Date().toISOString(), lines, msg: 'log.lines_lost' })}\n`

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
