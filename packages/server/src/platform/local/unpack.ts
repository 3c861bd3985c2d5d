import { mkdir, open } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { giveTo } from '../../embedded/cluster.ts'
import { runTool } from '../../embedded/tool.ts'
import type { Manifest } from '../archive/manifest.ts'
import { readArchive } from '../archive/read-archive.ts'
import type { Home } from './home.ts'

/** Writes an archive out as a cluster's directory, checked, on disk, and owned by whoever will run it. */
export async function unpack(
  home: Home,
  archive: AsyncIterable<Uint8Array>,
  into: string,
  options: { onProgress: (bytesDone: number) => void; signal: AbortSignal },
): Promise<Manifest> {
  let bytesDone = 0
  const manifest = await readArchive(archive, {
    async directory(path) {
      await mkdir(join(into, path), { recursive: true, mode: 0o700 })
    },
    async file(path, body) {
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
  })
  if (home.account) await giveTo(home.account, into)
  await runTool(home.binaries.initdb, ['-D', into, '--sync-only'], { account: home.account })
  return manifest
}
