import { useSyncExternalStore } from 'react'
import { basePath } from './address.ts'

export type Theme = 'system' | 'light' | 'dark'

const name = 'keyhook_theme'
const listeners = new Set<() => void>()

/** In a cookie of this path: the console keeps nothing in the browser's storage. */
function readTheme(): Theme {
  const value = document.cookie.match(new RegExp(`(?:^|; )${name}=(light|dark)`))?.[1]
  return value === 'light' || value === 'dark' ? value : 'system'
}

let theme = readTheme()

export function applyTheme(): void {
  if (theme === 'system') document.documentElement.removeAttribute('data-theme')
  else document.documentElement.dataset.theme = theme
}

export function setTheme(next: Theme): void {
  theme = next
  const seconds = next === 'system' ? 0 : 31_536_000
  // biome-ignore lint/suspicious/noDocumentCookie: the Cookie Store API is not in every browser
  document.cookie = `${name}=${next}; path=${basePath}; max-age=${seconds}; samesite=lax`
  applyTheme()
  for (const listener of listeners) listener()
}

export const useTheme = (): Theme =>
  useSyncExternalStore(
    (listener) => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    () => theme,
  )
