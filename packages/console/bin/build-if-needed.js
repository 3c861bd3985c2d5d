import { execFileSync } from 'node:child_process'
import { readdirSync, statSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/*
 * `npm start` in a checkout: builds the console if there is none, or if its sources are newer. It takes a few seconds and downloads
 * nothing. A failure is no reason not to start: everything else works without the console.
 */
const at = (path) => fileURLToPath(new URL(path, import.meta.url))

const newest = (folder) =>
  Math.max(
    ...readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map(({ parentPath, name }) => statSync(`${parentPath}/${name}`).mtimeMs),
  )

const sources = ['../src', '../../client/src', '../package.json', '../vite.config.ts', '../index.html'].map(at)

function isCurrent() {
  const built = statSync(at('../dist/index.html'), { throwIfNoEntry: false })
  if (built === undefined) return false
  return sources.every((path) => (statSync(path).isDirectory() ? newest(path) : statSync(path).mtimeMs) < built.mtimeMs)
}

if (!isCurrent()) {
  console.error('Building the console (a few seconds, after changes only).')
  try {
    const vite = fileURLToPath(import.meta.resolve('vite/package.json')).replace(/package\.json$/, 'bin/vite.js')
    execFileSync(process.execPath, [vite, 'build', at('..'), '--logLevel', 'error'], { stdio: 'inherit' })
  } catch {
    console.error('The console could not be built. Keyhook starts without it.')
  }
}
