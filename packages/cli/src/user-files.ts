import { createHash, randomBytes } from 'node:crypto'
import { chmod, mkdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { dirname, isAbsolute, join } from 'node:path'
import { UsageError } from './output.ts'

type Profile = { url: string; token: string; organization: string | null }
type Profiles = { current: string; profiles: Record<string, Profile> }

const empty: Profiles = { current: 'default', profiles: {} }

/** By the XDG Base Directory Specification, which says that a relative path is to be ignored. */
function baseDirectory(variable: string, fallback: string): string {
  const given = process.env[variable] ?? ''
  return join(isAbsolute(given) ? given : join(process.env.HOME || homedir(), fallback), 'keyhook')
}

/** Where positions and certificates are kept. */
export const stateDirectory = (): string => baseDirectory('XDG_STATE_HOME', '.local/state')

export const configFile = (): string => join(baseDirectory('XDG_CONFIG_HOME', '.config'), 'config.json')

export async function readProfiles(): Promise<Profiles> {
  const file = configFile()
  const found = await stat(file).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return null
    throw new UsageError(`${file} cannot be read (${error.code}).`)
  })
  if (found === null) return empty
  // It holds tokens: a file that others can read is not used, so that the problem is noticed.
  if ((found.mode & 0o077) !== 0)
    throw new UsageError(`${file} holds tokens, and other users can read the file. Run: chmod 600 ${file}`)
  if (found.uid !== process.getuid?.()) throw new UsageError(`${file} belongs to another user.`)
  const text = await readFile(file, 'utf8')
  try {
    return parse(JSON.parse(text))
  } catch {
    throw new UsageError(`${file} is damaged. Remove the file, and log in again.`)
  }
}

function parse(value: unknown): Profiles {
  const { current, profiles } = value as Profiles
  for (const one of Object.values(profiles)) {
    if (typeof one.url !== 'string' || typeof one.token !== 'string') throw new Error('not a profile')
  }
  return { current: String(current), profiles }
}

/** Replaces the file as a whole: a crash leaves the old one or the new one. */
export async function writeProfiles(profiles: Profiles): Promise<void> {
  const file = configFile()
  await writePrivateFile(file, `${JSON.stringify(profiles, null, 2)}\n`)
}

async function writePrivateFile(file: string, text: string): Promise<void> {
  const folder = dirname(file)
  const temporary = `${file}.${randomBytes(6).toString('hex')}`
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 })
    // An earlier program may have created it for all.
    await chmod(folder, 0o700)
    await writeFile(temporary, text, { mode: 0o600, flag: 'wx' })
    await rename(temporary, file)
  } catch (error) {
    await rm(temporary, { force: true }).catch(() => {})
    const { code, syscall } = error as NodeJS.ErrnoException
    if (syscall === undefined) throw error
    throw new UsageError(`${file} cannot be written (${code}).`)
  }
}

export const profileName = (text: string): string => {
  if (/^[A-Za-z0-9][\w.-]{0,63}$/.test(text)) return text
  throw new UsageError(
    `--profile: ${JSON.stringify(text)} is not a name: use 1 to 64 letters, digits, "_", "." and "-", with a letter or digit first.`,
  )
}

/** Everything up to `sequence` is done. `previous` is the last event that was forwarded; null if there was none. */
export type Position = { sequence: number; previous: number | null }

export type PositionFile = { read(): Promise<Position | null>; write(position: Position): Promise<void> }

/** One position for each server, organization, program and choice of events: they advance independently. */
export function createPositionFile(key: { url: string; orgId: string; target: string; events: string }): PositionFile {
  const parts = JSON.stringify([key.url, key.orgId, key.target, key.events])
  const name = createHash('sha256').update(parts).digest('hex').slice(0, 32)
  const file = join(stateDirectory(), 'listen', `${name}.json`)
  return {
    async read() {
      const text = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
        if (error.code === 'ENOENT') return null
        throw new UsageError(`${file} cannot be read (${error.code}).`)
      })
      if (text === null) return null
      const { sequence, previous } = JSON.parse(text) as Position
      return { sequence, previous }
    },
    write: ({ sequence, previous }) => writePrivateFile(file, `${JSON.stringify({ sequence, previous, ...key })}\n`),
  }
}
