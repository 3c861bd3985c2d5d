import { constants } from 'node:os'

/** When to stop, and why. `now` stops because of a failure, such as the end of PostgreSQL. */
type StopSignal = { promise: Promise<string>; now(failure: string): void; failure: string | null }

const signals = ['SIGINT', 'SIGTERM'] as const
/** npm forwards the Ctrl-C that the terminal has sent to every process: a second signal within this time is the same one. */
const sameSignalMs = 1_000
const parentCheckMs = 250

/**
 * Resolves on Ctrl-C, on SIGTERM, when npm was stopped, or on a failure. A second signal ends the process at once, without an
 * orderly stop.
 */
export function stopSignal(): StopSignal {
  // Promise.withResolvers is missing in Node 20.
  let resolve!: (why: string) => void
  const promise = new Promise<string>((done) => {
    resolve = done
  })
  const signal: StopSignal = {
    promise,
    failure: null,
    now(failure) {
      signal.failure = failure
      resolve(failure)
    },
  }
  let firstAt: number | null = null
  for (const name of signals) {
    process.on(name, () => {
      firstAt ??= performance.now()
      if (performance.now() - firstAt > sameSignalMs) endBy(name)
      resolve(name)
    })
  }
  if (process.env.npm_command !== undefined) watchParent(() => resolve('npm was stopped'))
  return signal
}

/** During this work a signal ends the process at once: there is nothing to finish first. */
export async function exitOnSignal<T>(work: () => Promise<T>): Promise<T> {
  for (const name of signals) process.on(name, endBy)
  try {
    return await work()
  } finally {
    for (const name of signals) process.off(name, endBy)
  }
}

/**
 * Ends the process by this signal, after the `exit` listeners. One of them stops the PostgreSQL that we started, which has its own
 * session and gets no signal from the terminal.
 */
function endBy(name: NodeJS.Signals): void {
  process.once('exit', () => {
    process.removeAllListeners(name)
    process.kill(process.pid, name)
  })
  // The exit code is for the first process of a container, which a signal without a listener does not end.
  process.exit(128 + constants.signals[name])
}

/**
 * npm and npx start us through a shell and send SIGTERM to that shell, which ends without forwarding it. We notice only that
 * our parent has changed. Without this, `kill <pid of npm>` would leave the server running.
 */
function watchParent(onGone: () => void): void {
  const parent = process.ppid
  const timer = setInterval(() => {
    if (process.ppid === parent) return
    clearInterval(timer)
    onGone()
  }, parentCheckMs)
  timer.unref()
}
