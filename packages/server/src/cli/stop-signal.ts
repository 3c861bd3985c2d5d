/** When to stop, and why. `now` is for what breaks under us; it becomes `failure`. */
export type StopSignal = { promise: Promise<string>; now(failure: string): void; failure: string | null }

const parentCheckMs = 250

/** Resolves on Ctrl-C, on a supervisor's SIGTERM, when npm was told to stop, or when something under us breaks. */
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
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => resolve(name))
  if (process.env.npm_command !== undefined) watchParent(() => resolve('npm was stopped'))
  return signal
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
