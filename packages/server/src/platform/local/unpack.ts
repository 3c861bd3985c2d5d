import { mkdir, open } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { syncCluster } from '../../embedded/cluster.ts'
import { giveClusterTo } from '../../embedded/ownership.ts'
import type { RunAs } from '../../embedded/start-program.ts'
import type { Manifest } from '../archive/manifest.ts'
import { readArchive } from '../archive/read-archive.ts'
import type { Home } from './home.ts'

/** Unpacks an archive into a cluster directory: verified, synced to disk, and owned by the account that will run it. */
export async function unpack(
  { binaries }: Pick<Home, 'binaries'>,
  runAs: RunAs,
  archive: AsyncIterable<Uint8Array>,
  into: string,
  options: { bytesMax: number; onProgress: (bytesDone: number) => void; signal: AbortSignal },
): Promise<Manifest> {
  let bytesDone = 0
  const receiver = {
    async directory(path: string) {
      await mkdir(join(into, path), { recursive: true, mode: 0o700 })
    },
    async file(path: string, body: AsyncIterable<Buffer>) {
      await mkdir(dirname(join(into, path)), { recursive: true, mode: 0o700 })
      const file = await open(join(into, path), 'wx', 0o600)
      try {
        for await (const part of body) {
          options.signal.throwIfAborted()
          await file.writeFile(part)
          bytesDone += part.length
          options.onProgress(bytesDone)
        }
      } finally {
        await file.close()
      }
    },
  }
  const manifest = await readArchive(archive, receiver, options)
  if (runAs.account) await giveClusterTo(runAs.account, into)
  await syncCluster(into, { binaries, ...runAs })
  return manifest
}
