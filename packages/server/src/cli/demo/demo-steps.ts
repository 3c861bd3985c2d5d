import { setTimeout } from 'node:timers/promises'
import { OperationFailed, type Output, styled } from '@keyhook/cli'
import { type Client, createClient, type Database } from '@keyhook/client'
import { eventTypes } from '../../domain/event-types.ts'
import type { DemoReceiver } from './demo-receiver.ts'
import { countRows, fillDatabase } from './demo-rows.ts'
import type { Started } from './demo-server.ts'

const pollMs = 200

/** The tour: what a customer would do, each step with the event that it causes. */
export async function runDemo(deps: {
  server: Started
  receiver: DemoReceiver
  output: Output
  say(text: string): void
  /** Nothing more is said after the steps. */
  isLast: boolean
}): Promise<void> {
  const { server, receiver, say } = deps
  const { url, orgId } = server
  const asOwner = createClient({ url, token: server.ownerToken, organization: orgId })
  const key = await asOwner.keys.create({ name: 'demo' })
  // From here on as a customer's script would, with the API key.
  const client = createClient({ url, token: key.api_key, organization: orgId })
  const webhook = await client.webhooks.create({ url: receiver.url, event_types: [...eventTypes] })
  receiver.verifyWith(webhook.secret)
  say(`
   server        ${url}
   organization  ${orgId}
   API key       ${key.key_prefix}_…
   webhook       ${webhook.id}
                 delivers to ${receiver.url}, which is this terminal
`)

  say(heading('1. A database "orders", with a table of 1,000 rows'))
  const orders = await client.databases.create({ name: 'orders' })
  await receiver.arrival('database.created')
  const source = { database: await untilAvailable(client, orders), password: orders.password }
  say(`   ${await fillDatabase(source)} rows in ${source.database.host}:${source.database.port}\n`)

  say(heading('2. A backup'))
  const backup = await client.backups.create(orders.id)
  await receiver.arrival('backup.completed')
  say('')

  say(heading('3. The backup, restored into a new database "orders-copy"'))
  const { database: copied } = await client.restores.create(backup.id, { name: 'orders-copy' })
  await receiver.arrival('restore.completed')
  const copy = { database: await untilAvailable(client, copied), password: copied.password }
  say(`   ${await countRows(copy)} rows in ${copy.database.host}:${copy.database.port}\n`)

  deps.output.result(
    {
      url,
      organization_id: orgId,
      api_key: key.api_key,
      webhook_id: webhook.id,
      backup_id: backup.id,
      database_ids: [orders.id, copied.id],
      console_url: server.consoleUrl,
    },
    deps.isLast ? 'Done.' : nextSteps(server, key.api_key, webhook.id),
  )
}

const heading = (text: string): string => styled('bold', text)

async function untilAvailable(client: Client, { id }: Database): Promise<Database> {
  for (;;) {
    const database = await client.databases.get(id)
    if (database.status === 'available') return database
    if (database.status === 'failed') throw new OperationFailed(`The database ${id} failed: ${database.failure}`)
    await setTimeout(pollMs)
  }
}

const nextSteps = (
  { url, consoleUrl }: Started,
  apiKey: string,
  webhookId: string,
): string => `${heading('It keeps running until Ctrl-C.')} In another terminal:

   export KEYHOOK_URL=${url}
   export KEYHOOK_TOKEN=${apiKey}
   npx keyhook databases list
   npx keyhook events tail --after 0
   npx keyhook webhooks test ${webhookId}
   npx keyhook listen --forward-to http://localhost:3000/hooks
${consoleUrl === null ? '' : `\n   The console (the link works once, for 10 minutes): ${consoleUrl}`}
   The reference of everything: ${url}/docs`
