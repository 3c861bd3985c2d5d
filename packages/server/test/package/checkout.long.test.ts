import { execFile } from 'node:child_process'
import { chmod, cp, mkdir, readFile, symlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { firstClosedDirectory } from '../../src/postgres/account.ts'
import { scratchDirectory } from '../kit/processes.ts'
import { asRoot } from '../postgres/support/scratch.ts'

/*
 * What `npm ci`, `npm start` and `npx keyhook` do in a checkout that was installed in another way than the documents say.
 */

const root = fileURLToPath(new URL('../../../..', import.meta.url))
const run = promisify(execFile)
const bin = join(root, 'packages/server/bin')

test.each([
  ['18.20.8', 1],
  ['20.0.0', 1],
  ['20.18.3', 1],
  ['20.19.0', 0],
  ['21.7.3', 1],
  ['22.11.0', 1],
  ['22.12.0', 0],
  ['23.0.0', 0],
  ['26.10.0', 0],
])('npm ci with Node %s ends with code %i, and says which versions work', async (version, code) => {
  const fake = `Object.defineProperty(process, 'versions', { value: { node: '${version}' } }); require('${bin}/check-node.cjs')`
  const ended = await run(process.execPath, ['-e', fake]).catch((error) => error)
  expect(ended.code ?? 0).toBe(code)
  if (code === 1)
    expect(ended.stderr).toMatch(/^Keyhook cannot be installed with Node [\d.]+: use Node 20\.19 [^\n]+\n$/)
})

test('the versions of package.json are those with which npm installs every native package', async () => {
  const lock = JSON.parse(await readFile(join(root, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { engines?: { node?: string }; optional?: boolean; os?: string | string[] }>
  }
  const ours = lock.packages['']!.engines!.node!
  expect(ours).toBe('^20.19.0 || >=22.12.0')
  expect(lock.packages['packages/server']!.engines!.node).toBe(ours)
  const native = Object.values(lock.packages).filter(
    ({ optional, os }) => optional && [os].flat().some((one) => /linux|darwin/.test(one ?? '')),
  )
  const wanted = new Set(native.map(({ engines }) => engines?.node))
  // Ours, and those that every version of ours fulfils.
  const older = [undefined, '>=14.21.3', '>=16', '>= 12.0.0', '^8.16.0 || ^10.6.0 || >=11.0.0']
  expect([...wanted].filter((range) => !older.includes(range))).toEqual([ours])
})

/** The files of a checkout that build the console, without a built one. */
async function checkout({ installed }: { installed: boolean }): Promise<string> {
  const folder = await scratchDirectory()
  await chmod(folder, 0o755)
  for (const path of ['packages/console', 'packages/client/src']) {
    await mkdir(dirname(join(folder, path)), { recursive: true })
    await cp(join(root, path), join(folder, path), {
      recursive: true,
      filter: (from) => !/\/(dist|node_modules|test)$/.test(from),
    })
  }
  if (installed) await symlink(join(root, 'node_modules'), join(folder, 'node_modules'))
  return folder
}

const build = 'packages/console/bin/build-if-needed.js'

test('a console whose build tools are not installed is reported in one line, with the remedy', async () => {
  const cwd = await checkout({ installed: false })
  const { stdout, stderr } = await run(process.execPath, [build, 'serve'], { cwd })
  expect(stdout).toBe('')
  expect(stderr).toMatch(
    /^The console could not be built, because [^\n]+ "npm ci" without --omit=dev\. [^\n]+without it\.\n$/,
  )
})

const canMount = asRoot && (await run('unshare', ['--mount', 'true']).then(Boolean, () => false))

test.skipIf(!canMount)('so is one whose native build tools are not installed', async () => {
  const cwd = await checkout({ installed: true })
  const hidden =
    'for one in "$0"/node_modules/@rolldown/binding-*; do mount -t tmpfs none "$one"; done; exec "$1" "$2" serve'
  const { stderr } = await run('unshare', ['--mount', 'sh', '-c', hidden, root, process.execPath, build], { cwd })
  expect(stderr).toMatch(
    /^Building [^\n]+\nThe console could not be built, because [^\n]+ without --omit=optional\. [^\n]+\n$/,
  )
})

test.skipIf(!asRoot)('so is a checkout that this user may not write to', async (context) => {
  const nobody = { uid: 65_534, gid: 65_534 }
  if (await firstClosedDirectory(dirname(process.execPath), nobody))
    return context.skip('the checkout is closed to other users')
  const cwd = await checkout({ installed: true })
  const { stderr } = await run(process.execPath, [build, 'serve'], { cwd, ...nobody })
  expect(stderr).toMatch(
    /^The console could not be built, because this user may not write to [^\n]+ as the owner [^\n]+\n$/,
  )
})

test('the help and the roles without an API need no console', async () => {
  const cwd = await checkout({ installed: false })
  for (const args of [
    ['serve', '--help'],
    ['serve', '--role', 'jobs'],
    ['serve', '--role=dispatcher'],
  ])
    expect(await run(process.execPath, [build, ...args], { cwd })).toMatchObject({ stdout: '', stderr: '' })
})

test('@keyhook/client can be imported as npm ci leaves it, by any Node', async () => {
  await run('npm', ['run', '-s', 'prepare', '-w', 'packages/client'], { cwd: root })
  const script =
    "import { createClient, verifyWebhook } from '@keyhook/client'; console.log(typeof createClient, typeof verifyWebhook)"
  const { stdout } = await run(process.execPath, ['--no-strip-types', '--input-type=module', '-e', script], {
    cwd: root,
  })
  expect(stdout).toBe('function function\n')
})
