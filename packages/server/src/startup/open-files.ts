import { readFileSync } from 'node:fs'

/** How many files, and so connections, this process may have open; null where it is unknown. Node has raised it to the hard limit. */
export function openFilesMax(): number | null {
  try {
    const limits = readFileSync('/proc/self/limits', 'utf8')
    const max = Number(/^Max open files +(\d+)/m.exec(limits)?.[1])
    return Number.isNaN(max) ? null : max
  } catch {
    return null
  }
}
