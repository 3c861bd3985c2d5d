import { resolve } from 'node:path'
import type { Config } from '../config.ts'
import { type Condition, conditionIn } from '../embedded/condition.ts'
import { unusable } from '../embedded/make-way.ts'

const whys: Record<Condition, string> = {
  'no-room': 'there is no room left on the disk. Make some (a new installation takes 200 MB) and start again',
  'read-only': 'the file system is mounted read-only. Mount it for writing, or choose a directory elsewhere',
}

/** The error to tell instead of one that comes from a condition of the machine: it says what to do, in one line. */
export function explained(config: Pick<Config, 'database' | 'dataDir'>, error: unknown): unknown {
  const condition = conditionIn(error)
  // A server of somebody else's has a machine of its own.
  if (config.database !== null || condition === null) return error
  return unusable({ path: resolve(config.dataDir), setting: 'KEYHOOK_DATA_DIR' }, whys[condition], error)
}
