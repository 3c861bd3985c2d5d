import { execFile } from 'node:child_process'
import { statfsSync } from 'node:fs'
import { open, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { type DiskLevel, diskLevel, diskLevels } from '../storage-rules.ts'

/** What is free for ordinary users: blocks that are reserved for root do not count. */
export type DiskSpace = { freeBytes: number; sizeBytes: number; freeFiles: number; files: number }

/** Synchronous: it takes microseconds, and in the thread pool it would wait behind the reads of backups just when the disk is busiest. */
export function readDisk(path: string): DiskSpace {
  const { bavail, blocks, bsize, ffree, files } = statfsSync(path)
  return { freeBytes: bavail * bsize, sizeBytes: blocks * bsize, freeFiles: ffree, files }
}

/** Shares of a small disk, so that a demonstration runs on one too. */
const floorShareMax = 0.25
const reserveShareMax = 0.05
/** Every table is at least one file. File systems that create inodes as needed report 0 of them. */
const freeFilesMin = 20_000
const freeFilesShare = 0.05

export const floorOf = ({ sizeBytes }: DiskSpace, wantedBytes: number): number =>
  Math.min(wantedBytes, Math.floor(sizeBytes * floorShareMax))

export const reserveOf = ({ sizeBytes }: DiskSpace, wantedBytes: number): number =>
  Math.min(wantedBytes, Math.floor(sizeBytes * reserveShareMax))

/** The stricter of free bytes and free inodes. */
export function levelOf(before: DiskLevel, space: DiskSpace, floorBytes: number): DiskLevel {
  const byBytes = diskLevel(before, space.freeBytes, floorBytes)
  const byFiles = diskLevel(before, space.freeFiles, Math.min(freeFilesMin, space.files * freeFilesShare))
  return diskLevels[Math.max(diskLevels.indexOf(byBytes), diskLevels.indexOf(byFiles))]!
}

const measureMsMax = 60_000
const outputBytesMax = 16 * 1024 * 1024

/** By `du`: 1,000 files take it 3 ms, and our event loop 50. Files that disappear make it report errors, and the sums are still good. */
export function measureDirectories(paths: readonly string[], signal: AbortSignal): Promise<Map<string, number>> {
  if (paths.length === 0) return Promise.resolve(new Map())
  return new Promise((done, fail) => {
    const options = {
      env: { PATH: '/usr/bin:/bin', LC_ALL: 'C' },
      maxBuffer: outputBytesMax,
      timeout: measureMsMax,
      signal,
    }
    execFile('du', ['-s', '-k', '--', ...paths], options, (error, stdout) => {
      const sizes = parse(stdout)
      if (error !== null && sizes.size === 0) fail(error)
      else done(sizes)
    })
  })
}

function parse(output: string): Map<string, number> {
  const sizes = new Map<string, number>()
  for (const line of output.split('\n')) {
    const [, kilobytes, path] = /^(\d+)\t(.+)$/.exec(line) ?? []
    if (kilobytes !== undefined && path !== undefined) sizes.set(path, Number(kilobytes) * 1024)
  }
  return sizes
}

/** Null if Keyhook's own PostgreSQL is on another disk than the databases of customers, or on another machine. */
export async function placeForReserve(dataDir: string, databases: string): Promise<string | null> {
  const deviceOf = async (path: string): Promise<number | null> => (await stat(path).catch(() => null))?.dev ?? null
  const shared = await deviceOf(databases)
  if ((await deviceOf(join(dataDir, 'postgres'))) !== shared) return null
  return join((await deviceOf(dataDir)) === shared ? dataDir : databases, 'reserve')
}

const chunkBytes = 1024 * 1024

export type ReserveFile = ReturnType<typeof createReserveFile>

/** Space that nobody else can take. It is given back when the disk is full, so that Keyhook's own PostgreSQL can go on. */
export function createReserveFile(path: string) {
  let heldBytes = 0
  return {
    /** Bytes that are allocated now. */
    heldBytes: () => heldBytes,
    /** Allocates the file, if it is not there. */
    async hold(bytes: number): Promise<void> {
      heldBytes = await allocatedBytes(path)
      if (heldBytes >= bytes) return
      try {
        await allocate(path, bytes)
      } catch (error) {
        // Half a reserve on a full disk is in the way.
        await rm(path, { force: true })
        heldBytes = 0
        throw error
      }
      heldBytes = await allocatedBytes(path)
    },
    /** Gives the space back to the file system. */
    async release(): Promise<void> {
      await rm(path, { force: true })
      heldBytes = 0
    },
  }
}

/** Blocks and not the length: a sparse file reserves nothing. */
const allocatedBytes = async (path: string): Promise<number> =>
  ((await stat(path).catch(() => null))?.blocks ?? 0) * 512

async function allocate(path: string, bytes: number): Promise<void> {
  await (await open(path, 'a', 0o600)).close()
  const env = { PATH: '/usr/bin:/bin' }
  const allocating = promisify(execFile)('fallocate', ['--length', String(bytes), path], { env })
  await allocating.catch(() => write(path, bytes))
}

/** Where there is no `fallocate`, or a file system without it. */
async function write(path: string, bytes: number): Promise<void> {
  const file = await open(path, 'w', 0o600)
  try {
    const chunk = Buffer.alloc(chunkBytes, 1)
    for (let done = 0; done < bytes; done += chunkBytes) await file.writeFile(chunk.subarray(0, bytes - done))
    await file.sync()
  } finally {
    await file.close()
  }
}
