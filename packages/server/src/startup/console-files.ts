import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** In the published package, and in a checkout. */
const places = ['../console', '../../../console/dist'].map((path) => fileURLToPath(new URL(path, import.meta.url)))

/** Where the built console is; null if there is none. */
export const consoleDirectory = (): string | null => places.find((path) => existsSync(`${path}/index.html`)) ?? null
