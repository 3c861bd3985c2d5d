import { constants, copyFile, type FileHandle, lstat, open, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { leaveToHost } from './host.ts'
import { lastLines } from './tool.ts'

const logBytesMax = 10 * 1024 * 1024
const tailBytesMax = 16 * 1024

export type LogFile = { path: string; fd: number; tail(): Promise<string>; close(): Promise<void> }

/** No link is followed: root may be serving somebody else's directory, who could have put one there. */
const appending = constants.O_APPEND | constants.O_CREAT | constants.O_RDWR | constants.O_NOFOLLOW

/** PostgreSQL's log, opened by us and handed over as its stderr, so that it needs no right to write in the directory. */
export async function openLog(dataDir: string, { lookEveryMs = 10_000 } = {}): Promise<LogFile> {
  const path = join(dataDir, 'postgres.log')
  const size = await lstat(path).then(
    ({ size }) => size,
    () => 0,
  )
  if (size > logBytesMax) await rename(path, `${path}.old`)
  const file = await open(path, appending, 0o600)
  await leaveToHost(path)
  let begin = (await file.stat()).size
  let looking: Promise<void> | undefined

  async function keepOld(): Promise<void> {
    await rm(`${path}.old`, { force: true })
    await copyFile(path, `${path}.old`, constants.COPYFILE_EXCL)
    await leaveToHost(`${path}.old`)
  }

  /** Emptied, not renamed: the server goes on writing to the descriptor that it has, at whatever the end is by then. */
  async function look(): Promise<void> {
    if ((await file.stat()).size <= logBytesMax) return
    // Where the disk has no room for the copy, making room comes first.
    await keepOld().catch(() => {})
    await file.truncate(0)
    begin = 0
  }
  const timer = setInterval(() => {
    looking ??= look()
      .catch(() => {})
      .finally(() => {
        looking = undefined
      })
  }, lookEveryMs).unref()

  return {
    path,
    fd: file.fd,
    tail: () => tailOf(file, begin),
    async close() {
      clearInterval(timer)
      await looking
      await file.close()
    },
  }
}

/** The last lines written since this start; what an earlier server said would mislead. */
async function tailOf(file: FileHandle, begin: number): Promise<string> {
  const { size } = await file.stat()
  const from = Math.max(begin, size - tailBytesMax)
  const buffer = Buffer.alloc(Math.max(0, size - from))
  await file.read(buffer, 0, buffer.length, from)
  return lastLines(buffer.toString('utf8'))
}
