import { join, resolve } from 'node:path'
import type { Config } from '../config.ts'
import { unusable } from '../embedded/ensure-directory.ts'
import { machineProblem } from '../embedded/machine-problem.ts'
import { noRoomAt } from './no-room.ts'
import { openFilesMax } from './open-files.ts'

/** The machine, or the user on it, cannot run PostgreSQL as things are. The text is for the operator. */
export class MachineUnfit extends Error {
  override readonly name = 'MachineUnfit'
}

/** The error to tell instead of one that comes from a condition of the machine: it says what to do, in one line. */
export async function explained(config: Pick<Config, 'database' | 'dataDir'>, error: unknown): Promise<unknown> {
  // A server of somebody else's has a machine of its own.
  if (config.database !== null) return error
  const directory = { path: resolve(config.dataDir), setting: 'KEYHOOK_DATA_DIR' }
  switch (machineProblem(error)) {
    case 'no-room':
      // The cluster may be behind a link, on another disk.
      return unusable(directory, await noRoomAt(join(directory.path, 'postgres')), error)
    case 'read-only':
      return unusable(directory, readOnly, error)
    case 'nameless-user':
      return new MachineUnfit(nameless(error as Error), { cause: error })
    case 'few-files':
      return new MachineUnfit(fewFiles(), { cause: error })
    case null:
      return error
  }
}

const readOnly = 'the file system is mounted read-only. Mount it for writing, or choose a directory elsewhere'

const fewFiles = (): string =>
  `A process may have too few files open here (${openFilesMax() ?? 'nobody says how many'}): allow 1024 or more ` +
  '(ulimit -n 1024; for systemd, LimitNOFILE=1024) and start again.'

/** By the program's words: where root lends PostgreSQL an account, it is not our own id. */
function nameless({ message }: Error): string {
  const id = /user ID (\d+)/.exec(message)?.[1]
  return (
    `PostgreSQL makes no database for a user without a name, and the user with id ${id} has none: give it one (as root: ` +
    `useradd --uid ${id} NAME), run Keyhook as another user, or set DATABASE_URL to a PostgreSQL server of your own.`
  )
}
