import { execFile } from 'node:child_process'
import { open, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'

/** Null if Keyhook's own PostgreSQL is on another disk than the databases of customers, or on another machine. */
export async function placeForReserve(dataDir: string, databases: string): Promise<string | null> {
  const deviceOf = (path: string): Promise<number | null> =>
    stat(path).then(
      ({ dev }) => dev,
      () => null,
    )
  const shared = await deviceOf(databases)
  if ((await deviceOf(join(dataDir, 'postgres'))) !== shared) return null
  return join((await deviceOf(dataDir)) === shared ? dataDir : databases, 'reserve')
}

const chunkBytes = 1024 * 1024

export type ReserveFile = {
  /** Bytes that are allocated now. */
  heldBytes(): number
  /** Allocates the file, if it is not there. */
  hold(bytes: number): Promise<void>
  /** Gives the space back to the file system. */
  release(): Promise<void>
}

/** Space that nobody else can take. It is given back when the disk is full, so that Keyhook's own PostgreSQL can go on. */
export function createReserveFile(path: string): ReserveFile {
  let heldBytes = 0
  return {
    heldBytes: () => heldBytes,
    async hold(bytes) {
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
    async release() {
      await rm(path, { force: true })
      heldBytes = 0
    },
  }
}

/** Blocks and not the length: a sparse file reserves nothing. */
const allocatedBytes = (path: string): Promise<number> =>
  stat(path).then(
    ({ blocks }) => blocks * 512,
    () => 0,
  )

async function allocate(path: string, bytes: number): Promise<void> {
  await (await open(path, 'a', 0o600)).close()
  const env = { PATH: '/usr/bin:/bin' }
  const allocated = await promisify(execFile)('fallocate', ['--length', String(bytes), path], { env }).then(
    () => true,
    () => false,
  )
  if (!allocated) await write(path, bytes)
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
