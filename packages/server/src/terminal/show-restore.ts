import type { Backup, Client, CreatedRestore, Restore } from '@keyhook/client'
import { createdText } from './created-database.ts'
import { OperationFailed } from './explain-client-error.ts'
import type { Output } from './output.ts'
import { waitFor } from './progress.ts'

export const isOver = ({ status }: { status: string }): boolean => status === 'completed' || status === 'failed'

export const bytesOf = (label: string, { bytes_done, bytes_total }: Backup | Restore) => ({
  label,
  done: bytes_done,
  total: bytes_total,
})

/** The answer to the request, or with `wait` what became of it. */
export async function showRestore(
  client: Client,
  output: Output,
  created: CreatedRestore,
  options: { wait?: true },
): Promise<void> {
  if (!options.wait) return output.result(created, createdText(created.database, created.database.password))
  const restore = await untilRestored(client, created.restore)
  const database = { ...(await client.databases.get(restore.database_id)), password: created.database.password }
  output.result({ restore, database }, createdText(database, database.password))
}

async function untilRestored(client: Client, created: Restore): Promise<Restore> {
  const restore = await waitFor(
    () => client.restores.get(created.id),
    isOver,
    (one: Restore) => bytesOf('Restore', one),
  )
  if (restore.status === 'failed') throw new OperationFailed(`The restore ${restore.id} failed: ${restore.failure}`)
  return restore
}
