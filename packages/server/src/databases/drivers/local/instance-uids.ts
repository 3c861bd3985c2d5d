import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createKeyedQueue } from '../../../lib/keyed-queue.ts'
import { StepFailure } from '../../../lib/step-failure.ts'
import type { Account } from '../../../postgres/account.ts'
import { writeSecret } from '../../../postgres/data-directory.ts'
import { isUnused, type UidRange } from '../../../postgres/uids.ts'

export type InstanceUids = {
  /** The account of an instance, which it keeps. The directory has to exist. */
  accountFor(directory: string): Promise<Account>
  /** Null if it has none yet. */
  accountOf(directory: string): Promise<Account | null>
}

/**
 * Gives each instance a uid of its own, kept in the file `uid` of its directory. They are given in turn, so one is used again
 * only when the whole range was given, and only if nothing of its former owner is left.
 */
export function createInstanceUids(deps: { home: string; seed: string; range: UidRange }): InstanceUids {
  const requests = createKeyedQueue()
  const size = deps.range.last - deps.range.first + 1
  const nextPath = join(deps.home, 'next-uid')

  async function take(directory: string): Promise<number> {
    const kept = await readUid(join(directory, 'uid'))
    if (kept !== null) return kept
    const taken = await uidsIn(deps.home)
    // Two data directories on one machine start at different places, so that they do not give the same uids.
    let next =
      (await readUid(nextPath)) ??
      deps.range.first + (createHash('sha256').update(deps.seed).digest().readUInt32BE() % size)
    for (let tried = 0; tried < size; tried++, next++) {
      if (next < deps.range.first || next > deps.range.last) next = deps.range.first
      if (taken.has(next) || !(await isUnused(next))) continue
      // Before the uid is used: after a crash it is skipped.
      await writeSecret(nextPath, String(next + 1))
      await writeSecret(join(directory, 'uid'), String(next))
      return next
    }
    throw new StepFailure('No user id is free for it on its node.', { permanent: true })
  }

  return {
    accountFor: async (directory) => accountWith(await requests.run('uid', () => take(directory))),
    async accountOf(directory) {
      const uid = await readUid(join(directory, 'uid'))
      return uid === null ? null : accountWith(uid)
    },
  }
}

/** A group of its own as well: a shared one would open what is closed to others. */
const accountWith = (uid: number): Account => ({ uid, gid: uid })

/** Of instances that exist, and of those whose removal has not finished. */
async function uidsIn(home: string): Promise<Set<number | null>> {
  const names = (await readdir(home)).filter((name) => name.startsWith('db_'))
  return new Set(await Promise.all(names.map((name) => readUid(join(home, name, 'uid')))))
}

async function readUid(path: string): Promise<number | null> {
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return null
    throw error
  })
  if (text === null) return null
  const uid = Number(text)
  // 0 would be root.
  if (!Number.isSafeInteger(uid) || uid < 1) throw new Error(`${path} does not hold a user id`)
  return uid
}
