import {
  chmod,
  chown,
  lstat,
  mkdir,
  mkdtemp,
  readdir,
  readlink,
  rename,
  rm,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import {
  allows,
  enter,
  firstClosedDirectory,
  type Modes,
  parseAccount,
  pathsFromRoot,
} from '../../src/postgres/account.ts'
import { clustersHome, installedNative, linkLibraries, readyBinaries } from '../../src/postgres/binaries.ts'
import { fits } from '../../src/postgres/lock-file.ts'
import {
  asRoot,
  dataDirectory,
  notes,
  open,
  putNote,
  removeClusterAfterwards,
  scratch,
  startHolder,
} from './support/scratch.ts'

const nobody = { uid: 65_534, gid: 65_534 }

test('exactly one triplet of mode bits counts: owner, group or others', () => {
  const who = { uid: 100, gid: 200 }
  expect(allows({ mode: 0o700, uid: 100, gid: 1 }, who, enter)).toBe(true)
  expect(allows({ mode: 0o077, uid: 100, gid: 200 }, who, enter)).toBe(false)
  expect(allows({ mode: 0o710, uid: 1, gid: 200 }, who, enter)).toBe(true)
  expect(allows({ mode: 0o701, uid: 1, gid: 200 }, who, enter)).toBe(false)
  expect(allows({ mode: 0o701, uid: 1, gid: 1 }, who, enter)).toBe(true)
  expect(allows({ mode: 0o000, uid: 1, gid: 1 }, { uid: 0, gid: 0 }, enter)).toBe(true)
})

test('the outermost closed directory on a path is found', async () => {
  const modes: Record<string, Modes> = {
    '/': { mode: 0o755, uid: 0, gid: 0 },
    '/root': { mode: 0o700, uid: 0, gid: 0 },
    '/root/data': { mode: 0o700, uid: 0, gid: 0 },
  }
  const modesOf = async (path: string) => modes[path]!
  expect(pathsFromRoot('/root/data')).toEqual(['/', '/root', '/root/data'])
  expect(await firstClosedDirectory('/root/data', nobody, modesOf)).toBe('/root')
  expect(await firstClosedDirectory('/', nobody, modesOf)).toBeUndefined()
})

test('an account is found by its complete name', () => {
  const passwd = 'root:x:0:0::/root:/bin/sh\nkeyhook2:x:7:8::/:/bin/sh\nkeyhook:x:998:997::/:/usr/sbin/nologin\n'
  expect(parseAccount(passwd, 'keyhook')).toEqual({ uid: 998, gid: 997 })
  expect(parseAccount(passwd, 'nobody')).toBeUndefined()
})

test('a data directory with a path too long for a socket gets a private socket directory, removed on stop', async () => {
  const deep = join(await scratch(), 'a-rather-long-name-for-a-directory'.repeat(4))
  removeClusterAfterwards(deep)
  const embedded = await open(deep)
  const { host } = embedded.connection
  expect(fits(join(deep, 'postgres'))).toBe(false)
  expect(fits(host)).toBe(true)
  expect((await stat(host)).mode & 0o777).toBe(0o700)
  await putNote(embedded.connection, 'deep')
  const command = await open(deep, 'command')
  expect(await notes(command.connection)).toEqual(['deep'])
  await embedded.stop()
  await expect(stat(host)).rejects.toThrow(/ENOENT/)
})

test('a start that fails because the log cannot be opened leaves no socket directory', async () => {
  const deep = join(await scratch(), 'a-rather-long-name-for-a-directory'.repeat(4))
  removeClusterAfterwards(deep)
  await (await open(deep)).stop()
  await rm(join(deep, 'postgres.log'))
  await mkdir(join(deep, 'postgres.log'))
  const temporary = await scratch()
  vi.stubEnv('TMPDIR', temporary)
  onTestFinished(() => void vi.unstubAllEnvs())
  await expect(open(deep)).rejects.toThrow('EISDIR')
  expect(await readdir(temporary)).toEqual([])
})

test('a path with spaces, commas, quotes and equals signs works', async () => {
  const odd = join(await scratch(), `it's "a", b=c`)
  removeClusterAfterwards(odd)
  const embedded = await open(odd)
  await putNote(embedded.connection, 'odd')
  expect(await notes((await open(odd, 'command')).connection)).toEqual(['odd'])
})

test('missing library links are created, also by several processes at once', async () => {
  const native = join(await scratch(), 'native')
  await mkdir(join(native, 'lib'), { recursive: true })
  await writeFile(join(native, 'lib/libpq.so.5.18'), '')
  const list = ['libpq.so', 'libpq.so.5'].map((name) => ({
    source: 'native/lib/libpq.so.5.18',
    target: `native/lib/${name}`,
  }))
  await writeFile(join(native, 'pg-symlinks.json'), JSON.stringify(list))
  const answers = await Promise.all(Array.from({ length: 5 }, () => linkLibraries(native)))
  expect(answers).toEqual(Array(5).fill(true))
  expect(await readlink(join(native, 'lib/libpq.so.5'))).toBe('libpq.so.5.18')
  expect((await readdir(join(native, 'lib'))).sort()).toEqual(['libpq.so', 'libpq.so.5', 'libpq.so.5.18'])
})

test('every library link of the installed package points to a file', async () => {
  const native = await installedNative()
  expect(await linkLibraries(native)).toBe(true)
  const entries = await readdir(join(native, 'lib'), { withFileTypes: true })
  const links = entries.filter((entry) => entry.isSymbolicLink())
  expect(links.length).toBeGreaterThan(0)
  for (const link of links) await stat(join(native, 'lib', link.name))
})

test.skipIf(!asRoot)('in a folder that only root may enter, the cluster is outside of it, behind a link', async () => {
  const dataDir = join(await scratch(0o700), 'data')
  removeClusterAfterwards(dataDir)
  const first = await open(dataDir)
  const target = await readlink(join(dataDir, 'postgres'))
  expect(target.startsWith(`${clustersHome}/`)).toBe(true)
  await putNote(first.connection, 'far away')
  await first.stop()
  expect(await notes((await open(dataDir)).connection)).toEqual(['far away'])
  expect(await readlink(join(dataDir, 'postgres'))).toBe(target)
})

test.skipIf(!asRoot)('a copy of a directory whose cluster is outside of it does not use that cluster', async () => {
  const dataDir = join(await scratch(0o700), 'data')
  removeClusterAfterwards(dataDir)
  const original = await open(dataDir)
  const copy = join(await scratch(0o700), 'data')
  await mkdir(copy)
  await symlink(await readlink(join(dataDir, 'postgres')), join(copy, 'postgres'))
  await expect(open(copy)).rejects.toThrow(/another data directory/)
  await putNote(original.connection, 'unchanged')
  expect(await notes(original.connection)).toEqual(['unchanged'])
})

test.skipIf(!asRoot)(
  'a data directory made by mktemp -d gets mode 0711, so that the cluster can be inside',
  async () => {
    const dataDir = await mkdtemp(join(tmpdir(), 'keyhook-test-'))
    removeClusterAfterwards(dataDir)
    try {
      const embedded = await open(dataDir)
      expect((await lstat(join(dataDir, 'postgres'))).isDirectory()).toBe(true)
      expect((await stat(dataDir)).mode & 0o777).toBe(0o711)
      await embedded.stop()
    } finally {
      await rm(dataDir, { recursive: true, force: true })
    }
  },
)

test.skipIf(!asRoot)('a directory with other files keeps its mode', async () => {
  const dataDir = await dataDirectory()
  await mkdir(dataDir, { mode: 0o700 })
  await writeFile(join(dataDir, 'diary.txt'), 'dear diary')
  await open(dataDir)
  expect((await stat(dataDir)).mode & 0o777).toBe(0o700)
})

test.skipIf(!asRoot)('binaries that the account cannot reach are copied once, with modes that it can use', async () => {
  const { native, closed } = await closedPackage()
  const home = join(dirname(clustersHome), 'postgresql-0.0.0-test-')
  const finished = `${home}${process.pid}-${process.arch}`
  await writeFile(join(closed, 'package.json'), JSON.stringify({ version: `0.0.0-test-${process.pid}` }))
  try {
    const copies = await Promise.all([1, 2, 3].map(() => readyBinaries(native, '/nowhere', nobody)))
    expect(new Set(copies.map((copy) => copy.postgres))).toEqual(new Set([`${finished}/native/bin/postgres`]))
    expect(await firstClosedDirectory(`${finished}/native/bin/postgres`, nobody)).toBeUndefined()
    expect(await readlink(`${finished}/native/lib/libpq.so.5`)).toBe('libpq.so.5.18')
    expect((await readdir(dirname(clustersHome))).filter((name) => name.includes('.copying-'))).toEqual([])
  } finally {
    await rm(finished, { recursive: true, force: true })
  }
})

test.skipIf(!asRoot)('a cluster that root restored with a plain copy gets its account as owner again', async () => {
  const dataDir = await dataDirectory()
  const first = await open(dataDir)
  await putNote(first.connection, 'restored')
  await first.stop()
  const cluster = join(dataDir, 'postgres')
  for (const entry of await readdir(cluster, { withFileTypes: true, recursive: true })) {
    await chown(join(entry.parentPath, entry.name), 0, 0)
  }
  await chown(cluster, 0, 0)
  await chmod(cluster, 0o755)
  expect(await notes((await open(dataDir)).connection)).toEqual(['restored'])
})

test.skipIf(!asRoot)(
  "an ordinary user's directory is closed to others, and root runs its server as that user",
  async (context) => {
    if (await firstClosedDirectory(process.execPath.replace(/\/[^/]*$/, ''), nobody)) return context.skip()
    const folder = await scratch()
    await chown(folder, nobody.uid, nobody.gid)
    const dataDir = join(folder, 'data')
    removeClusterAfterwards(dataDir)
    const owner = startHolder(dataDir, 'serve', nobody)
    const { connection } = await owner.until((line) => line.ready === true)
    expect((await stat(dataDir)).mode & 0o777).toBe(0o700)
    await putNote(connection!, 'ordinary')
    owner.child.kill('SIGTERM')
    await owner.ended

    const root = await open(dataDir)
    expect(await notes(root.connection)).toEqual(['ordinary'])
    expect((await stat(join(dataDir, 'postgres'))).uid).toBe(nobody.uid)
  },
)

test.skipIf(!asRoot)('a cluster that became inaccessible is an error that names the closed directory', async () => {
  const folder = await scratch()
  await (await open(join(folder, 'data'))).stop()
  const closed = join(folder, 'closed')
  await mkdir(closed, { mode: 0o700 })
  await rename(join(folder, 'data'), join(closed, 'data'))
  await expect(open(join(closed, 'data'))).rejects.toThrow(`chmod o+x ${closed}`)
})

/** A package as npm unpacks it under umask 077, with its install script never run. */
async function closedPackage(): Promise<{ native: string; closed: string }> {
  const closed = await scratch(0o700)
  const native = join(closed, 'native')
  for (const folder of ['bin', 'lib/postgresql', 'share/postgresql']) {
    await mkdir(join(native, folder), { recursive: true, mode: 0o700 })
  }
  for (const file of [
    'bin/postgres',
    'lib/libpq.so.5.18',
    'lib/postgresql/plpgsql.so',
    'share/postgresql/postgres.bki',
  ]) {
    await writeFile(join(native, file), '', { mode: 0o700 })
  }
  const links = [{ source: 'native/lib/libpq.so.5.18', target: 'native/lib/libpq.so.5' }]
  await writeFile(join(native, 'pg-symlinks.json'), JSON.stringify(links))
  return { native, closed }
}
