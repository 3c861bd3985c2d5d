import { spawnSync } from 'node:child_process'
import { accessSync, constants, existsSync, readdirSync, statSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/*
 * `keyhook serve` and `demo` in a checkout: builds the console if there is none, or if its sources are newer. It takes a few seconds and
 * downloads nothing. A failure is no reason not to start: everything else works without the console.
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

/** Why it cannot be built, and what to do; null if it was built. */
function build() {
  let vite
  try {
    vite = fileURLToPath(import.meta.resolve('vite/package.json')).replace(/package\.json$/, 'bin/vite.js')
    accessSync(vite)
  } catch {
    return 'the packages that build it are not installed: run "npm ci" without --omit=dev'
  }
  try {
    accessSync(at('..'), constants.W_OK)
  } catch {
    return `this user may not write to ${at('..')}: run "npm run build -w packages/console" as the owner of the checkout`
  }
  console.error('Building the console (a few seconds, after changes only).')
  const options = { encoding: 'utf8', stdio: ['ignore', 'inherit', 'pipe'] }
  const { status, stderr } = spawnSync(process.execPath, [vite, 'build', at('..'), '--logLevel', 'error'], options)
  if (status === 0) return null
  if (stderr.includes('native binding'))
    return 'an optional package that builds it is not installed: run "npm ci" without --omit=optional'
  const [reason] = stderr.split('\n').filter((line) => /error/i.test(line))
  return `${reason?.trim() ?? 'the build failed'}: "npm run build -w packages/console" shows the whole reason`
}

// An older Node is reported by Keyhook itself, and some roles and the help need no console.
const isOld = Number(process.versions.node.split('.')[0]) < 26
const isUnneeded = process.argv.some((word) => /^(--help|-h|(--role=)?(dispatcher|jobs))$/.test(word))
if (!isOld && !isUnneeded && !isCurrent()) {
  const problem = build()
  const rest = existsSync(at('../dist/index.html'))
    ? 'The console that was built before is used'
    : 'Keyhook starts without it'
  if (problem !== null) console.error(`The console could not be built, because ${problem}. ${rest}.`)
}
