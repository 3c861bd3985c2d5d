import { constants, type FileHandle, lstat, open, rename, rm, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import { DirectoryUnusable, giveToDirectoryOwner } from './ownership.ts'
import { lastLines } from './start-program.ts'

const logBytesMax = 10 * 1024 * 1024
const tailBytesMax = 16 * 1024
/** With less, PostgreSQL can neither start nor log the reason. */
const freeBytesMin = 1024 * 1024

export type LogFile = { path: string; fd: number; tail(): Promise<string>; close(): Promise<void> }

const { O_APPEND, O_CREAT, O_RDWR, O_NOFOLLOW, O_NONBLOCK } = constants

/** Follows no link and waits for no pipe: the owner of the directory could have created them. */
async function openAppending(path: string): Promise<FileHandle> {
  const file = await open(path, O_APPEND | O_CREAT | O_RDWR | O_NOFOLLOW | O_NONBLOCK, 0o600).catch(
    (error: NodeJS.ErrnoException) => {
      if (error.code !== 'ELOOP') throw error
      throw new DirectoryUnusable(`${path} is a link, and logs are not written through links: remove it.`)
    },
  )
  const found = await file.stat()
  if (found.isFile() && found.nlink === 1) return file
  await file.close()
  throw new DirectoryUnusable(`${path} is not a regular file with one name: remove it.`)
}

/** PostgreSQL's log. We open it and pass it on as stderr, so that the server needs no right to write in the directory. */
export async function openLog(dataDir: string, { checkEveryMs = 10_000 } = {}): Promise<LogFile> {
  const path = join(dataDir, 'postgres.log')
  const size = await lstat(path).then(
    ({ size }) => size,
    () => 0,
  )
  if (size > logBytesMax) await rename(path, `${path}.old`)
  const file = await openAppending(path)
  await giveToDirectoryOwner(path)
  let begin = (await file.stat()).size
  let rotating: Promise<void> | undefined

  /** Copies from the descriptor: by now the log's name may be a link to another file. */
  async function copyToOld(): Promise<void> {
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
    await giveToDirectoryOwner(`${path}.old`)
  }

  /** Truncated and not renamed, because the server keeps its descriptor. It appends, so it continues at the new end. */
  async function rotate(): Promise<void> {
    if ((await file.stat()).size <= logBytesMax) return
    // Without room for the copy, freeing space is more important.
    await copyToOld().catch(() => {})
    await file.truncate(0)
    begin = 0
  }
  const timer = setInterval(() => {
    rotating ??= rotate()
      .catch(() => {})
      .finally(() => {
        rotating = undefined
      })
  }, checkEveryMs).unref()

  return {
    path,
    fd: file.fd,
    tail: async () => (await tailOf(file, begin)) + ((await isFull(dataDir)) ? diskFull : ''),
    async close() {
      clearInterval(timer)
      await rotating
      await file.close()
    },
  }
}

/** The text is that of the operating system, which `machineProblem` recognises. */
const diskFull = '\nNo space left on device: the last lines may be missing here.'

const isFull = (directory: string): Promise<boolean> =>
  statfs(directory).then(
    ({ bavail, bsize }) => bavail * bsize < freeBytesMin,
    () => false,
  )

/** The last lines since this start; those of an earlier server would mislead. */
async function tailOf(file: FileHandle, begin: number): Promise<string> {
  const { size } = await file.stat()
  const from = Math.max(begin, size - tailBytesMax)
  const buffer = Buffer.alloc(Math.max(0, size - from))
  await file.read(buffer, 0, buffer.length, from)
  return lastLines(buffer.toString('utf8'))
}
