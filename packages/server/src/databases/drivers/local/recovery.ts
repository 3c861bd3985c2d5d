import { open } from 'node:fs/promises'
import { join } from 'node:path'
import type { WalFile } from '../../../archives/wal-archive.ts'
import { isHistory, positionOf } from '../../../archives/wal-archive.ts'
import { StepFailure } from '../../../lib/step-failure.ts'
import type { Account } from '../../../postgres/account.ts'
import { syncDirectory } from '../../../postgres/data-directory.ts'
import { openControl } from './control.ts'
import type { Control } from './instance.ts'

/** Puts the WAL into an unpacked cluster, and the file that makes PostgreSQL replay it and start a new timeline. */
export async function prepareRecovery(
  cluster: string,
  files: readonly WalFile[],
  { account, signal }: { account: Account | undefined; signal: AbortSignal },
): Promise<void> {
  for (const { name, read } of files) {
    signal.throwIfAborted()
    if (positionOf(name) === null && !isHistory(name)) throw new Error(`not a WAL file: ${name}`)
    await writeNew(join(cluster, 'pg_wal', name), await read(), account)
  }
  await syncDirectory(join(cluster, 'pg_wal'))
  await writeNew(join(cluster, 'recovery.signal'), Buffer.alloc(0), account)
  await syncDirectory(cluster)
}

/** The archive of the backup may have it already. */
async function writeNew(path: string, content: Buffer, account: Account | undefined): Promise<void> {
  const file = await open(path, 'wx', 0o600).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'EEXIST') return undefined
    throw error
  })
  if (file === undefined) return
  try {
    if (account) await file.chown(account.uid, account.gid)
    await file.writeFile(content)
    await file.sync()
  } finally {
    await file.close()
  }
}

const targetNotReached = 'recovery ended before configured recovery target was reached'

/** All WAL is in pg_wal already. `false` is a command that finds nothing elsewhere; PostgreSQL wants one. */
const everything = { restore_command: 'false', hot_standby: 'off' }

/**
 * Starts the server with the settings of a recovery to `to`, or to the end of the WAL. PostgreSQL stops before the first commit that is later. If there is
 * none it refuses to start, and then the end of the WAL is the state at that time.
 */
export async function recover<T>(
  start: (settings: Readonly<Record<string, string>>) => Promise<T>,
  to: Date | null,
): Promise<T> {
  if (to === null) return start(everything)
  // On the command line PostgreSQL knows no name of a time zone, not even Z.
  const time = to.toISOString().replace('Z', '+00')
  const target = { recovery_target_time: time, recovery_target_action: 'promote' }
  try {
    return await start({ ...everything, ...target })
  } catch (error) {
    if (!String(error).includes(targetNotReached)) throw error
    return start(everything)
  }
}

/** A history is a line for each timeline. */
const historyBytesMax = 64 * 1024

/**
 * PostgreSQL takes a segment that it cannot read, or that belongs to another system, for the end of the WAL. Throws if it ended
 * so before `committed`. The history of the new timeline says where and why: "before …" is the time that was asked for.
 */
export async function checkReplayed(control: Control, committed: string, signal: AbortSignal): Promise<void> {
  const { sql, close } = await openControl(control, { name: 'keyhook recovery', signal })
  try {
    const [ended] = await sql<{ lsn: string; isComplete: boolean }[]>`
      select found.line[1] as lsn, found.line[1]::pg_lsn >= ${committed}::pg_lsn or found.line[2] like 'before %' as "isComplete"
      from (
        select regexp_match(pg_read_file('pg_wal/' || max(name), 0, ${historyBytesMax}), '\t([0-9A-F/]+)\t([^\n]*)\n*$') as line
        from pg_ls_waldir() where name ~ '^[0-9A-F]{8}\\.history$'
      ) found`
    if (ended?.isComplete) return
    const cause = new Error(`the replay ended at ${ended?.lsn ?? 'an unknown position'}, and ${committed} was stored`)
    throw new StepFailure(
      'The stored write-ahead log cannot be read to its end: a part of it is damaged, or belongs to another database.',
      {
        permanent: true,
        cause,
      },
    )
  } finally {
    await close()
  }
}
