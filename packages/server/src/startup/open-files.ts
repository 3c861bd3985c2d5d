import { readFileSync } from 'node:fs'

/** How many files, and so connections, this process may have open; null where nobody says. Node has raised it as far as it may. */
export function openFilesMax(): number | null {
  try {
    const limits = readFileSync('/proc/self/limits', 'utf8')
    const max = Number(/^Max open files +(\d+)/m.exec(limits)?.[1])
    return Number.isNaN(max) ? null : max
  } catch {
    return null
  }
}
