import { execFile } from 'node:child_process'
import { access, constants } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import type { Binaries } from './binaries.ts'

const majorMin = 15

/** The programs of a PostgreSQL that the operator installed. The message of an error says what is missing. */
export async function ownBinaries(bin: string): Promise<Binaries> {
  const [initdb, postgres] = [join(bin, 'initdb'), join(bin, 'postgres')]
  for (const program of [initdb, postgres]) {
    if (!(await allows(program, constants.X_OK)))
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
    if (await allows(join(place, 'plpgsql.control'), constants.R_OK)) return place
  }
  throw new Error(
    `KEYHOOK_POSTGRES_BIN: the extensions of ${bin} are neither in ${prefix}/share nor where Debian has them.`,
  )
}

const allows = (path: string, mode: number): Promise<boolean> =>
  access(path, mode).then(
    () => true,
    () => false,
  )
