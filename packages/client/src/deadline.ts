import { KeyhookError } from './errors.ts'

/** A signal that is aborted by the caller's signal, or when the time is over. */
export type Deadline = {
  signal: AbortSignal
  isOver(): boolean
  /** Starts the time again. */
  restart(): void
  /** Stops the time until `restart`. */
  pause(): void
  /** To be called at the end: a caller's signal can live for days, and would keep every listener. */
  clear(): void
}

export function createDeadline(ms: number, outer?: AbortSignal): Deadline {
  const controller = new AbortController()
  let isOver = false
  let timer: ReturnType<typeof setTimeout> | undefined
  const abort = () => controller.abort(outer?.reason)
  const restart = () => {
    clearTimeout(timer)
    timer = setTimeout(() => {
      isOver = true
      controller.abort()
    }, ms)
  }
  if (outer?.aborted) abort()
  else restart()
  outer?.addEventListener('abort', abort)
  return {
    signal: controller.signal,
    isOver: () => isOver,
    restart,
    pause: () => clearTimeout(timer),
    clear() {
      clearTimeout(timer)
      outer?.removeEventListener('abort', abort)
    },
  }
}

export const aborted = (signal: AbortSignal): KeyhookError =>
  new KeyhookError({ code: 'client.aborted', message: 'The call was aborted.', cause: signal.reason })

/** Waits, and rejects as soon as the signal is aborted. */
export function waitMs(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer)
      if (signal) reject(aborted(signal))
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop)
      resolve()
    }, ms)
    if (signal?.aborted) stop()
    else signal?.addEventListener('abort', stop, { once: true })
  })
}

/** Full jitter: any time up to a limit that doubles with each attempt, so that clients do not come back together. */
export const backoffMs = (attempts: number, first: number, most: number): number =>
  Math.random() * Math.min(most, first * 2 ** attempts)
