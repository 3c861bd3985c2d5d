#!/usr/bin/env node
// Plain JavaScript on purpose: an old Node must be able to read this far and say what to do.
import { statSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const major = Number(process.versions.node.split('.')[0])
if (major < 26) {
  console.error(
    `Keyhook runs on Node 26, and this is Node ${process.versions.node}. The checkout brings its own, which npm 11 puts in place: run "npm install --global npm@11 && npm ci", then "npx keyhook" or "npm start".`,
  )
  process.exit(2)
}
await keepCompiled(fileURLToPath(new URL('../../../node_modules', import.meta.url)))
await import('../src/main.ts')

/**
 * What Node made of our sources is kept for the next start, which takes half the time then, and a server 20 MB less. Beside
 * the libraries, and only where those are ours: a cache that belongs to somebody else could hold anything, and one that root
 * left behind could not be removed by "npm ci".
 */
async function keepCompiled(libraries) {
  const owner = statSync(libraries, { throwIfNoEntry: false })?.uid
  if (owner !== process.getuid?.()) return
  const { enableCompileCache } = await import('node:module')
  enableCompileCache(`${libraries}/.cache/keyhook`)
}
