import { setTimeout as sleep } from 'node:timers/promises'
import { Client, type ClientConfig } from 'pg'

const retryMs = 200

/**
 * Notifications of one channel, on their own connection, which is made again when it is lost. Rejects when the first connection
 * cannot be made. Notifications in between are missed: they are hints.
 */
export async function listen(
  config: ClientConfig,
  channel: string,
  onPayload: (payload: string) => void,
): Promise<() => Promise<void>> {
  let isStopped = false
  let current: Client | undefined

  async function open(): Promise<void> {
    const { promise: lost, resolve: onLost } = Promise.withResolvers<void>()
    const client = new Client(config)
    client.on('error', () => onLost())
    client.on('end', () => onLost())
    client.on('notification', ({ payload }) => onPayload(payload ?? ''))
    try {
      await client.connect()
      await client.query(`listen ${client.escapeIdentifier(channel)}`)
    } catch (error) {
      await client.end().catch(() => {})
      throw error
    }
    current = client
    if (isStopped) await client.end()
    void lost.then(reopen)
  }

  async function reopen(): Promise<void> {
    while (!isStopped) {
      try {
        await open()
        return
      } catch {
        await sleep(retryMs, undefined, { ref: false })
      }
    }
  }

  await open()
  return async () => {
    isStopped = true
    await current?.end()
  }
}
