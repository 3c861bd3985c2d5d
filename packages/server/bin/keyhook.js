#!/usr/bin/env node
// Plain JavaScript on purpose: an old Node must be able to read this far and say what to do.
const major = Number(process.versions.node.split('.')[0])
if (major < 26) {
  console.error(
    `Keyhook runs on Node 26, and this is Node ${process.versions.node}. The checkout brings its own: run "npm ci", then "npx keyhook" or "npm start".`,
  )
  process.exit(2)
}
await import('../src/main.ts')
