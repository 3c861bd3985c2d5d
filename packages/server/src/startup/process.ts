import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { setFlagsFromString } from 'node:v8'

/**
 * How far the heap may grow over its live size, in percent, before the next major GC. With V8's default, up to 400, a dispatcher
 * with a million deliveries waiting took 360 to 420 MB; with 100 it takes 275 MB.
 */
const growthPercent = 100

/** To be called before much is allocated. */
export function limitHeapGrowth(): void {
  setFlagsFromString(`--heap-growing-percent=${growthPercent}`)
  // V8 would allocate the records of statements as old objects from the start, which forced a major GC every second.
  setFlagsFromString('--no-allocation-site-pretenuring')
}

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

/** The version of Keyhook, from its package.json. */
export const version = (): string => {
  const manifest = readFileSync(new URL('../../package.json', import.meta.url), 'utf8')
  return (JSON.parse(manifest) as { version: string }).version
}

/** In the published package, and in a checkout. */
const places = ['../console', '../../../console/dist'].map((path) => fileURLToPath(new URL(path, import.meta.url)))

/** Where the built console is; null if there is none. */
export const consoleDirectory = (): string | null => places.find((path) => existsSync(`${path}/index.html`)) ?? null
