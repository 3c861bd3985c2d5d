import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import {
  createOutput,
  type KeyhookCommand,
  OperationFailed,
  type Output,
  stopSignal,
  styled,
  UsageError,
} from '@keyhook/cli'
import { type Client, createClient, type Database } from '@keyhook/client'
import { connect } from '../../db/database.ts'
import { eventTypes } from '../../delivery/events.ts'
import { removeDataDirectory } from '../../postgres/data-directory.ts'
import { type DemoReceiver, type Started, startDemoReceiver, startDemoServer } from './demo-server.ts'

type Options = { keep?: string; once?: true; json?: boolean }

/** Everything that Keyhook does, on this machine, with nothing left behind. */
export function addCommands(program: KeyhookCommand): void {
  program
    .command('demo')
    .examples('npx keyhook demo', 'npx keyhook demo --keep ./demo')
    .option('--keep <folder>', 'Keep the data of the demo in this folder, which must be empty or new')
    .option('--once', 'End the demo after the last step instead of at Ctrl-C')
    .option('--json', 'Print a line of JSON for each event, and one with the ids of what was created')
    .action(demo)
}

async function demo(options: Options): Promise<void> {
  const output = createOutput(options)
  const say = (text: string): void => void (options.json || process.stdout.write(`${text}\n`))
  const stopped = stopSignal()
  void stopped.promise.then(() => say('\nStopping.'))
  await using parts = new AsyncDisposableStack()
  const folder = await demoFolder(options.keep)
  if (options.keep === undefined) parts.defer(() => removeFolder(folder))
  const end = options.keep === undefined ? 'removed when it ends' : 'kept'
  say(`${styled('bold', 'Keyhook demo.')} Everything is in ${folder}, and is ${end}.\n`)
  const receiver = await startDemoReceiver({ folder, output })
  parts.defer(receiver.close)
  say('Starting a server with its own PostgreSQL …')
  const server = startDemoServer({ folder, certificatePath: receiver.certificatePath })
  parts.defer(server.close)
  const work = async () =>
    runDemo({ server: await server.started(), receiver, output, say, isLast: options.once ?? false })
  const isDone = await Promise.race([work().then(() => true), stopped.promise.then(() => false)])
  if (!isDone || options.once) return
  await stopped.promise
}

async function demoFolder(keep: string | undefined): Promise<string> {
  if (keep === undefined) return mkdtemp(join(tmpdir(), 'keyhook-demo-'))
  const folder = resolve(keep)
  await mkdir(folder, { recursive: true, mode: 0o700 })
  if ((await readdir(folder)).length > 0)
    throw new UsageError(`--keep: ${folder} is not empty. Name an empty or a new folder.`)
  return folder
}

async function removeFolder(folder: string): Promise<void> {
  await removeDataDirectory(join(folder, 'data'))
  await rm(folder, { recursive: true, force: true })
}

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
): string => `${heading('The demo runs until Ctrl-C.')} In another terminal:

   export KEYHOOK_URL=${url}
   export KEYHOOK_TOKEN=${apiKey}
   npx keyhook databases list
   npx keyhook events tail --after 0
   npx keyhook webhooks test ${webhookId}
   npx keyhook listen --forward-to http://localhost:3000/hooks
${consoleUrl === null ? '' : `\n   The console (the link works once, for 10 minutes): ${consoleUrl}`}
   The API reference: ${url}/docs`

const rows = 1_000

type Login = { database: Database; password: string }

async function query(login: Login, text: string): Promise<number> {
  const { host, port, user, database: name } = login.database
  const target = { host: host!, port: port!, user, password: login.password, database: name }
  const db = connect(target, { name: 'keyhook demo', connectionsMax: 1 })
  try {
    const [row] = await db.unsafe<{ count: string }[]>(text)
    return Number(row?.count ?? 0)
  } finally {
    await db.end()
  }
}

/** Something worth a backup. Returns the number of rows. */
export async function fillDatabase(login: Login): Promise<number> {
  await query(
    login,
    'create table orders (id bigint primary key, customer text not null, amount_cents bigint not null)',
  )
  await query(login, `insert into orders select n, 'customer ' || n % 50, n * 25 from generate_series(1, ${rows}) n`)
  return countRows(login)
}

export const countRows = (login: Login): Promise<number> => query(login, 'select count(*) from orders')
