import { KeyhookError } from '@keyhook/client'
import { useSyncExternalStore } from 'react'
import { consolePath } from '../address.ts'

const askAgainMs = 2_000

/** Nothing answered, or a proxy that has no server behind it. */
export const isServerAway = (error: unknown): boolean =>
  error instanceof KeyhookError && (error.code === 'client.network' || error.status === 502 || error.status === 504)

let waiting: Promise<void> | null = null
const listeners = new Set<() => void>()

/** Resolves when the server answers again. */
export function serverIsBack(): Promise<void> {
  if (waiting === null) {
    waiting = askUntilAnswered()
    for (const listener of listeners) listener()
  }
  return waiting
}

const answers = (): Promise<boolean> =>
  fetch(consolePath('/config.json'), { cache: 'no-store' }).then(
    ({ ok }) => ok,
    () => false,
  )

async function askUntilAnswered(): Promise<void> {
  do await new Promise((done) => setTimeout(done, askAgainMs))
  while (!(await answers()))
  waiting = null
  for (const listener of listeners) listener()
}

/**
 * For the code of a page that could not be loaded. The router would reload at once, and the browser would show its own error page.
 * A browser may remember that an import failed, so we reload too, when the server is there again.
 */
export async function whenServerIsBack(error: unknown): Promise<never> {
  if (await answers()) throw error
  await serverIsBack()
  location.reload()
  return new Promise(() => {})
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

export const useIsServerAway = (): boolean => useSyncExternalStore(subscribe, () => waiting !== null)
