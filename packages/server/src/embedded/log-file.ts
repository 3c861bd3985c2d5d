import { constants, type FileHandle, lstat, open, rename, rm, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import { hostOf, leaveToHost } from './host.ts'
import { DirectoryUnusable } from './make-way.ts'
import { lastLines } from './tool.ts'

const logBytesMax = 10 * 1024 * 1024
const tailBytesMax = 16 * 1024
/** With less, PostgreSQL can neither start nor say why. */
const freeBytesMin = 1024 * 1024

export type LogFile = { path: string; fd: number; tail(): Promise<string>; close(): Promise<void> }

const appending = constants.O_APPEND | constants.O_CREAT | constants.O_RDWR

/** Where root serves somebody else's directory no link is followed: its owner could have put it there. */
async function openAppending(dataDir: string, path: string): Promise<FileHandle> {
  const followed = (await hostOf(dataDir)) === undefined ? 0 : constants.O_NOFOLLOW
  return open(path, appending | followed, 0o600).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ELOOP') throw error
    throw new DirectoryUnusable(`${path} is a link, and root follows none in somebody else's directory: remove it.`)
  })
}

/** PostgreSQL's log, opened by us and handed over as its stderr, so that it needs no right to write in the directory. */
export async function openLog(dataDir: string, { lookEveryMs = 10_000 } = {}): Promise<LogFile> {
  const path = join(dataDir, 'postgres.log')
  const size = await lstat(path).then(
    ({ size }) => size,
    () => 0,
  )
  if (size > logBytesMax) await rename(path, `${path}.old`)
  const file = await openAppending(dataDir, path)
  await leaveToHost(path)
  let begin = (await file.stat()).size
  let looking: Promise<void> | undefined

  /** From the descriptor: what stands under the log's name by now may be a link to what is nobody else's business. */
  async function keepOld(): Promise<void> {
    await rm(`${path}.old`, { force: true })
    const old = await open(`${path}.old`, 'wx', 0o600)
    try {
      const chunk = Buffer.alloc(1024 * 1024)
      for (let at = 0, read = -1; read !== 0; at += read) {
        read = (await file.read(chunk, 0, chunk.length, at)).bytesRead
        await old.writeFile(chunk.subarray(0, read))
      }
    } finally {
      await old.close()
    }
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
    tail: async () => (await tailOf(file, begin)) + ((await isFull(dataDir)) ? lost : ''),
    async close() {
      clearInterval(timer)
      await looking
      await file.close()
    },
  }
}

/** As the system would have put it. */
const lost = '\nNo space left on device: what was said last may be missing here.'

const isFull = (directory: string): Promise<boolean> =>
  statfs(directory).then(
    ({ bavail, bsize }) => bavail * bsize < freeBytesMin,
    () => false,
  )

/** The last lines written since this start; what an earlier server said would mislead. */
async function tailOf(file: FileHandle, begin: number): Promise<string> {
  const { size } = await file.stat()
  const from = Math.max(begin, size - tailBytesMax)
  const buffer = Buffer.alloc(Math.max(0, size - from))
  await file.read(buffer, 0, buffer.length, from)
  return lastLines(buffer.toString('utf8'))
}
