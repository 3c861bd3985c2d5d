import { constants } from 'node:os'

/** When to stop, and why. `now` is for what breaks under us; it becomes `failure`. */
export type StopSignal = { promise: Promise<string>; now(failure: string): void; failure: string | null }

const signals = ['SIGINT', 'SIGTERM'] as const
/** npm hands on the Ctrl-C that the terminal has given to all of us: what comes again so soon is the same one. */
const sameMs = 1_000
const parentCheckMs = 250

/**
 * Resolves on Ctrl-C, on a supervisor's SIGTERM, when npm was told to stop, or when something under us breaks. Whoever says it
 * again does not want to wait for an orderly end.
 */
export function stopSignal(): StopSignal {
  const { promise, resolve } = Promise.withResolvers<string>()
  const signal: StopSignal = {
    promise,
    failure: null,
    now(failure) {
      signal.failure = failure
      resolve(failure)
    },
  }
  let toldAt: number | null = null
  for (const name of signals) {
    process.on(name, () => {
      toldAt ??= performance.now()
      if (performance.now() - toldAt > sameMs) endBy(name)
      resolve(name)
    })
  }
  if (process.env.npm_command !== undefined) watchParent(() => resolve('npm was stopped'))
  return signal
}

/** While there is nothing that has to be finished first, a signal ends the process at once. */
export async function endingAtOnce<T>(work: () => Promise<T>): Promise<T> {
  for (const name of signals) process.on(name, endBy)
  try {
    return await work()
  } finally {
    for (const name of signals) process.off(name, endBy)
  }
}

/**
 * As the signal would have ended us by itself, but by way of `exit`, where a PostgreSQL that we have started is told to stop: it
 * has a session of its own, and no signal of the terminal reaches it.
 */
function endBy(name: NodeJS.Signals): void {
  process.once('exit', () => {
    process.removeAllListeners(name)
    process.kill(process.pid, name)
  })
  // The number is for the first process of a container, which no signal ends that it does not listen to.
  process.exit(128 + constants.signals[name])
}

/**
 * npm and npx put a shell between themselves and us, and hand a SIGTERM to that shell, which dies without telling. All we
 * can see is that our parent is another one. Without this, `kill <pid of npm>` would leave the server running.
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
