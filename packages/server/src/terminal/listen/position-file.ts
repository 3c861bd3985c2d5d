import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { UsageError } from '../output.ts'
import { stateDirectory, writePrivateFile } from '../profiles.ts'

/** Everything up to `sequence` is done. `previous` is the last event that was forwarded; null if there was none. */
export type Position = { sequence: number; previous: number | null }

export type PositionFile = { read(): Promise<Position | null>; write(position: Position): Promise<void> }

/** One position for each server, organization, program and choice of events: they advance independently. */
export function createPositionFile(key: { url: string; orgId: string; target: string; events: string }): PositionFile {
  const parts = JSON.stringify([key.url, key.orgId, key.target, key.events])
  const name = createHash('sha256').update(parts).digest('hex').slice(0, 32)
  const file = join(stateDirectory(), 'listen', `${name}.json`)
  return {
    async read() {
      const text = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
        if (error.code === 'ENOENT') return null
        throw new UsageError(`${file} cannot be read (${error.code}).`)
      })
      if (text === null) return null
      const { sequence, previous } = JSON.parse(text) as Position
      return { sequence, previous }
    },
    write: ({ sequence, previous }) => writePrivateFile(file, `${JSON.stringify({ sequence, previous, ...key })}\n`),
  }
}
