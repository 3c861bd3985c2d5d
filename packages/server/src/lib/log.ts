import { isatty } from 'node:tty'
import { type Logger, pino } from 'pino'

/** `auto` is pretty on a terminal and JSON everywhere else. */
type LogSettings = { logLevel: string; logFormat: 'auto' | 'pretty' | 'json' }

/**
 * Writes lines at level info whose fields the caller has encoded as JSON. For one line per delivery attempt: pino takes 4 µs more
 * for it, a twentieth of a busy dispatcher's time.
 */
export type LineLog = { isOn(): boolean; write(fields: string): void }

const standardError = 2
const flushMs = 100
/** Must be below the 16 KB that sonic-boom writes at once. */
const flushBytes = 4_096
/** Lines wait for a slow reader up to here; further lines are dropped and counted, so that memory stays bounded. */
const waitingBytesMax = 16 * 1024 * 1024
/** Tries to write the last lines at exit, 100 ms apart, while the reader does not read. */
const triesAtExit = 20

/** The log goes to standard error; standard output is for the results of commands. */
export async function createLog({ logLevel: level, logFormat }: LogSettings): Promise<{ log: Logger; lines: LineLog }> {
  const isPretty = logFormat === 'pretty' || (logFormat === 'auto' && isatty(standardError))
  const encode = isPretty ? await prettyPrinter() : (line: string) => line
  const destination = createDestination()
  const stream = { write: (line: string) => void destination.write(encode(line)) }
  const timestamp = createTimestamp()
  const log = pino({ level, base: null, timestamp, serializers: { err: loggedError } }, stream)
  const head = `{"level":${pino.levels.values.info}`
  const lines: LineLog = {
    isOn: () => log.isLevelEnabled('info'),
    write: (fields) => stream.write(`${head}${timestamp()},${fields}}\n`),
  }
  return { log, lines }
}

/** Loaded only where it is used: it takes 25 ms of a start. */
async function prettyPrinter(): Promise<(line: string) => string> {
  const { prettyFactory } = await import('pino-pretty')
  const colorize = isatty(standardError) && process.stderr.hasColors()
  return prettyFactory({ colorize, singleLine: true, translateTime: 'SYS:HH:MM:ss.l' })
}

/** Writes in blocks, at most 100 ms late: line by line it took a sixth of a busy dispatcher's time. */
function createDestination() {
  let triesLeft = Number.POSITIVE_INFINITY
  const retryEAGAIN = () => triesLeft-- > 0
  const destination = pino.destination({
    fd: standardError,
    sync: false,
    minLength: flushBytes,
    periodicFlush: flushMs,
    maxLength: waitingBytesMax,
    retryEAGAIN,
  })

  let dropped = 0
  destination.on('drop', () => {
    dropped += 1
  })
  destination.on('drain', () => {
    if (dropped === 0) return
    destination.write(droppedLine(dropped))
    dropped = 0
  })

  // Usually a full disk. What could not be written is tried again with the next lines, and the server goes on.
  let isFailing = false
  destination.on('error', () => {
    isFailing = true
  })
  destination.on('write', () => {
    isFailing = false
  })
  // Before pino's own listener, which would try for ever on a full disk or a pipe without a reader.
  process.prependOnceListener('exit', () => {
    triesLeft = triesAtExit
    try {
      if (!isFailing) return destination.flushSync()
    } catch {
      // There is no place left to report it.
    }
    destination.destroy()
  })
  return destination
}

const droppedLine = (lines: number): string =>
  `${JSON.stringify({ level: pino.levels.values.warn, time: new Date().toISOString(), lines, msg: 'log.lines_dropped' })}\n`

/** Logs known fields only: libraries attach whole clients with passwords to errors, and PostgreSQL's details quote rows. */
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

/** Encodes the time once per millisecond: a busy dispatcher writes several lines in one. */
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
