// Runs at the end of `npm ci` in a checkout. Under other versions npm silently leaves out optional packages that the console and the
// tests are built with. Plain old JavaScript, so that any Node can read it.
var version = process.versions.node.split('.').map(Number)
var isFit = version[0] === 20 ? version[1] >= 19 : version[0] === 22 ? version[1] >= 12 : version[0] > 22
if (!isFit) {
  console.error(
    'Keyhook cannot be installed with Node ' +
      process.versions.node +
      ': use Node 20.19 or newer, 22.12 or newer, or any version from 23 on, and run "npm ci" again.',
  )
  process.exit(1)
}
