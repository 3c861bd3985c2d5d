// Plain JavaScript, so that an old Node can read it and print what to do. `bin/keyhook` runs it on the right Node.
import { existsSync, statSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const major = Number(process.versions.node.split('.')[0])
if (major < 26) {
  console.error(
    `Keyhook runs on Node 26, and this is Node ${process.versions.node}. npm installs Node 26 with Keyhook on Linux and macOS (x64 and arm64), as an optional dependency that "npx keyhook" and "npm start" use: run "npm ci" without --omit=optional.`,
  )
  process.exit(2)
}
// The sources are only in a checkout. The published package has plain JavaScript, because Node runs no TypeScript in node_modules.
const isCheckout = existsSync(new URL('../src/main.ts', import.meta.url))
if (isCheckout) await importSources()
await enableCompileCache(fileURLToPath(new URL(isCheckout ? '../../../node_modules' : '../..', import.meta.url)))
await import(isCheckout ? '../src/main.ts' : '../dist/main.js')

/** In a checkout @keyhook/client is TypeScript too, without a build. Its package names the sources by this condition. */
async function importSources() {
  const { registerHooks } = await import('node:module')
  const withSources = ({ conditions, ...context }) => ({ ...context, conditions: [...conditions, '@keyhook/source'] })
  registerHooks({ resolve: (specifier, context, next) => next(specifier, withSources(context)) })
}

/**
 * Keeps compiled code for the next start, which then takes half the time. Only where node_modules belongs to this user: a
 * cache of another user could hold any code, and "npm ci" could not remove one that root left behind.
 */
async function enableCompileCache(modules) {
  const owner = statSync(modules, { throwIfNoEntry: false })?.uid
  if (owner !== process.getuid?.()) return
  const { enableCompileCache: enable } = await import('node:module')
  enable(`${modules}/.cache/keyhook`)
}
